/** The issues of the world. */
import { useLive } from "../../live/use-live";
import { Verbatim } from "../../parts/verbatim";
import { get } from "../../sdk";
import { PanelState } from "../panel-state";

const load = () => get<{ issues: { id: string; title: string; status: string }[] }>("/api/issues");

export default function Issues() {
  const live = useLive("issues", load, (record) => record.unit.startsWith("sys/Issue@1/"));
  return (
    <PanelState live={live} loading="Loading the issues" empty="There is no issue." isEmpty={(data) => data.issues.length === 0}>
      {(data) => (
        <ul>
          {data.issues.map((each) => (
            <li key={each.id}>
              <Verbatim text={each.title} /> {each.status}
            </li>
          ))}
        </ul>
      )}
    </PanelState>
  );
}
