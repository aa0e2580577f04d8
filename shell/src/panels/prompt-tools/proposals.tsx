/** The proposals of prompt tools. */
import { useLive } from "../../live/use-live";
import { Verbatim } from "../../parts/verbatim";
import { get } from "../../sdk";
import { PanelState } from "../panel-state";

const load = () => get<{ proposals: { id: string; name: string; tool: string; state: string }[] }>("/api/proposals");

export default function Proposals() {
  const live = useLive("proposals", load, (record) => record.unit.startsWith("sys/ToolProposal@1/"));
  return (
    <PanelState live={live} loading="Loading the proposals" empty="Nothing is proposed." isEmpty={(data) => data.proposals.length === 0}>
      {(data) => (
        <ul>
          {data.proposals.map((each) => (
            <li key={each.id}>
              <Verbatim text={each.name} /> <code>{each.tool}</code> {each.state}
            </li>
          ))}
        </ul>
      )}
    </PanelState>
  );
}
