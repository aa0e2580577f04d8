/** What the answers of models cost, by chat, day, model and tool. A cost that nobody knows is never shown as 0. */
import { useState } from "react";
import { useLive } from "../live/use-live";
import { Link, navigate, useSearch } from "../router";
import { type CostReport, type CostSum, costGet } from "../sdk";
import { PanelState } from "./panel-state";
import "./panels.css";

const DAYS = [7, 30, 90, 365];
/** So many rows of a table are shown at first. */
const SOME = 50;

export default function CostPanel() {
  const days = Number(useSearch().get("days") ?? 30) || 30;
  const live = useLive(`cost ${days}`, () => costGet(days), (record) => record.kind === "receipt" && record.body?.payload?.token_usage !== undefined);
  return (
    <main className="page wide">
      <h1>Cost</h1>
      <label>
        Days{" "}
        <select value={days} onChange={(event) => navigate(`/cost?days=${event.target.value}`, { replace: true })}>
          {[...new Set([...DAYS, days])].sort((one, other) => one - other).map((each) => (
            <option key={each}>{each}</option>
          ))}
        </select>
      </label>
      <PanelState live={live} loading="Loading the cost" empty="No model answered in these days." isEmpty={(data) => data.total.answers === 0}>
        {(data) => (
          <>
            <p>
              {data.since} to {data.until} (UTC): <strong>{costText(data.total)}</strong> for {count(data.total.answers, "answer")}.
              {data.total.unpriced > 0 && ` The cost of ${data.total.unpriced.toLocaleString()} of them is not known.`}
            </p>
            {data.budgets.length > 0 && (
              <ul className="problem" aria-label="Budgets that near their end">
                {data.budgets.map((each) => (
                  <li key={`${each.unit} ${each.account} ${each.dimension}`}>
                    <bdi className="wrap">{each.name}</bdi>: {each.says}
                  </li>
                ))}
              </ul>
            )}
            <DayChart report={data} />
            <SumTable name="Chat" total={data.total} rows={data.by_chat.map((each) => [each.name, each, each.chat === null ? undefined : `/chats/${encodeURIComponent(each.chat)}`])} />
            <SumTable name="Day" total={data.total} rows={data.by_day.map((each) => [each.day, each])} />
            <SumTable name="Model" total={data.total} rows={data.by_model.map((each) => [each.model, each])} />
            <SumTable name="Tool" total={data.total} rows={data.by_tool.map((each) => [each.tool ?? "(no tool)", each])} />
            <p className="faint">
              By tool: the answers that were the first to read a result of the tool.
              {data.by_tool.some((each) => each.shared > 0) && " An answer that read results of several tools is in the row of each."}
            </p>
          </>
        )}
      </PanelState>
    </main>
  );
}

const count = (number: number, noun: string) => `${number.toLocaleString()} ${noun}${number === 1 ? "" : "s"}`;

function costText(sum: CostSum): string {
  if (sum.cost_usd !== null) return `$${sum.cost_usd}`;
  return sum.unpriced < sum.answers ? `at least $${sum.known_usd}` : "unknown";
}

const [HEIGHT, WIDTH] = [40, 100];

/** The known cost of each day as a bar; a day with an answer of unknown cost has a hatched one. */
function DayChart({ report }: { report: CostReport }) {
  const most = Math.max(...report.by_day.map((each) => Number(each.known_usd)), 0);
  const width = WIDTH / Math.max(report.by_day.length, 14);
  const someUnknown = report.by_day.some((each) => each.cost_usd === null);
  return (
    <figure className="chart">
      <p className="faint">{most > 0 ? `$${most} on the dearest day` : "No known cost"}</p>
      <svg viewBox={`0 0 ${WIDTH} ${HEIGHT}`} preserveAspectRatio="none" role="img" aria-label="Known cost of each day; the table below has the numbers">
        <defs>
          <pattern id="hatched" width="1.2" height="1.2" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">
            <rect width="0.6" height="1.2" className="bar-unknown" />
          </pattern>
        </defs>
        {report.by_day.map((each, place) => {
          const height = most > 0 ? (Number(each.known_usd) / most) * (HEIGHT - 2) : 0;
          const isUnknown = each.cost_usd === null;
          const shown = isUnknown ? Math.max(height, 6) : Math.max(height, 1);
          return (
            <rect key={each.day} x={place * width + width * 0.1} width={width * 0.8} y={HEIGHT - shown} height={shown} className={isUnknown ? "" : "bar-known"} fill={isUnknown ? "url(#hatched)" : undefined}>
              <title>
                {each.day}: {costText(each)}
                {each.unpriced > 0 && `, ${count(each.unpriced, "answer")} of unknown cost`}
              </title>
            </rect>
          );
        })}
      </svg>
      <figcaption className="faint">
        {report.by_day[0]?.day} to {report.by_day.at(-1)?.day}.{someUnknown && " Hatched: a part of the cost, or all of it, is not known."}
      </figcaption>
    </figure>
  );
}

interface SumTableProps {
  name: string;
  total: CostSum;
  rows: [string, CostSum, string?][];
}

/** Sums by their label. The share of the whole is behind the cost. */
function SumTable({ name, total, rows }: SumTableProps) {
  const [shown, setShown] = useState(SOME);
  return (
    <div className="scroll" tabIndex={0} role="group" aria-label={`Cost by ${name.toLowerCase()}`}>
      <table>
        <thead>
          <tr>
            <th scope="col">{name}</th>
            <th scope="col" className="number">Cost</th>
            <th scope="col" className="number">Answers</th>
            <th scope="col" className="number">Tokens in</th>
            <th scope="col" className="number">Tokens out</th>
          </tr>
        </thead>
        <tbody>
          {rows.slice(0, shown).map(([label, sum, href]) => (
            <tr key={href ?? label}>
              <th scope="row">
                {href === undefined ? (
                  <bdi className="wrap">{label}</bdi>
                ) : (
                  <Link href={href}>
                    <bdi className="wrap">{label}</bdi>
                  </Link>
                )}
              </th>
              <td className="number cost" style={{ backgroundSize: `${share(sum, total) * 100}% 100%` }}>
                {costText(sum)}
                {sum.unpriced > 0 && sum.unpriced < sum.answers && <span className="faint"> ({sum.unpriced.toLocaleString()} unknown)</span>}
              </td>
              <td className="number">{sum.answers.toLocaleString()}</td>
              <td className="number">{sum.prompt_tokens.toLocaleString()}</td>
              <td className="number">{sum.completion_tokens.toLocaleString()}</td>
            </tr>
          ))}
        </tbody>
      </table>
      {rows.length > shown && (
        <button type="button" onClick={() => setShown(shown + SOME)}>
          More ({(rows.length - shown).toLocaleString()})
        </button>
      )}
    </div>
  );
}

function share(sum: CostSum, total: CostSum): number {
  const whole = Number(total.known_usd);
  return whole > 0 ? Number(sum.known_usd) / whole : 0;
}
