/** What the answers of models cost, by chat, day and model. A cost that nobody knows is never shown as 0. */
import { useLive } from "../live/use-live";
import { navigate, useSearch } from "../router";
import { type CostReport, type CostSum, costGet } from "../sdk";
import { PanelState } from "./panel-state";
import "./panels.css";

const DAYS = [7, 30, 90, 365];

export default function CostPanel() {
  const days = Number(useSearch().get("days") ?? 30) || 30;
  const live = useLive(`cost ${days}`, () => costGet(days), (record) => record.kind === "receipt");
  return (
    <main className="page wide">
      <h1>Cost</h1>
      <label>
        Days{" "}
        <select value={days} onChange={(event) => navigate(`/cost?days=${event.target.value}`, { replace: true })}>
          {DAYS.map((each) => (
            <option key={each}>{each}</option>
          ))}
        </select>
      </label>
      <PanelState live={live} loading="Loading the cost" empty="No model answered in these days." isEmpty={(data) => data.total.answers === 0}>
        {(data) => (
          <>
            <p>
              {data.since} to {data.until} (UTC): <strong>{costText(data.total)}</strong> for {data.total.answers} answers.
              {data.total.unpriced > 0 && ` The cost of ${data.total.unpriced} of them is not known.`}
            </p>
            <DayChart report={data} />
            <SumTable name="Chat" rows={data.by_chat.map((each) => [each.chat ?? each.unit, each])} />
            <SumTable name="Day" rows={data.by_day.map((each) => [each.day, each])} />
            <SumTable name="Model" rows={data.by_model.map((each) => [each.model, each])} />
          </>
        )}
      </PanelState>
    </main>
  );
}

function costText(sum: CostSum): string {
  if (sum.cost_usd !== null) return `$${sum.cost_usd}`;
  return sum.unpriced < sum.answers ? `at least $${sum.known_usd}` : "unknown";
}

/** The known cost of each day as bars; the bar of a day with an unknown part is pale. */
function DayChart({ report }: { report: CostReport }) {
  const most = Math.max(...report.by_day.map((each) => Number(each.known_usd)), 0);
  const width = 100 / Math.max(report.by_day.length, 14);
  return (
    <figure className="chart">
      <svg viewBox="0 0 100 40" preserveAspectRatio="none" role="img" aria-label="Known cost of each day">
        {report.by_day.map((each, place) => {
          const height = most > 0 ? (Number(each.known_usd) / most) * 38 : 0;
          return (
            <rect key={each.day} x={place * width + width * 0.1} width={width * 0.8} y={40 - Math.max(height, 1)} height={Math.max(height, 1)} className={each.cost_usd === null ? "bar-unknown" : "bar-known"}>
              <title>
                {each.day}: {costText(each)}
              </title>
            </rect>
          );
        })}
      </svg>
      <figcaption className="faint">
        {report.by_day[0]?.day} to {report.by_day.at(-1)?.day}. A pale bar: a part of the cost is not known.
      </figcaption>
    </figure>
  );
}

function SumTable({ name, rows }: { name: string; rows: [string, CostSum][] }) {
  return (
    <div className="scroll" tabIndex={0} role="group" aria-label={`Cost by ${name.toLowerCase()}`}>
      <table>
        <thead>
          <tr>
            <th scope="col">{name}</th>
            <th scope="col">Answers</th>
            <th scope="col">Tokens in</th>
            <th scope="col">Tokens out</th>
            <th scope="col">Cost</th>
          </tr>
        </thead>
        <tbody>
          {rows.map(([label, sum]) => (
            <tr key={label}>
              <th scope="row">
                <bdi className="wrap">{label}</bdi>
              </th>
              <td>{sum.answers}</td>
              <td>{sum.prompt_tokens.toLocaleString()}</td>
              <td>{sum.completion_tokens.toLocaleString()}</td>
              <td>{costText(sum)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
