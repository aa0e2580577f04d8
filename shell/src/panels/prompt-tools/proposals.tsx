/** The proposals of prompt tools: the list with its filters, or the one that the address names. */
import { useState } from "react";
import { useLive } from "../../live/use-live";
import { moveFocus } from "../../parts/list-keys";
import { Name } from "../../parts/name";
import { Moment } from "../../parts/time";
import { Verbatim } from "../../parts/verbatim";
import { Link, navigate, usePath, useSearch } from "../../router";
import { proposalsGet, type ToolProposal } from "../../sdk/review";
import { useSession } from "../../session";
import { PanelState } from "../panel-state";
import "../panels.css";
import { ProposalPage } from "./proposal-page";
import "./review.css";
import { TextFilter } from "./text-filter";
import { idIn, isOfProposals, KINDS, PROPOSALS, proposalHref, STATES, TONES, waitsFor, withQuery } from "./review-words";

/** So many proposals are shown at first. */
const SOME = 100;

export default function Proposals() {
  const id = idIn(usePath(), PROPOSALS);
  return id === null ? <ProposalList /> : <ProposalPage key={id} id={id} />;
}

function ProposalList() {
  const search = useSearch();
  const state = search.get("state") ?? "";
  const tool = search.get("tool") ?? "";
  const session = useSession();
  const [count, setCount] = useState(SOME);
  const query = { state: state || undefined, tool: tool || undefined, limit: count };
  const live = useLive(`proposals ${state} ${tool} ${count}`, () => proposalsGet(query), isOfProposals);
  const filter = (changed: Record<string, string>) => navigate(withQuery(PROPOSALS, { state, tool, ...changed }), { replace: true });
  return (
    <>
      <div className="filters">
        <label>
          State{" "}
          <select value={state} onChange={(event) => filter({ state: event.target.value })}>
            <option value="">any</option>
            {Object.entries(STATES).map(([value, words]) => (
              <option key={value} value={value}>
                {words}
              </option>
            ))}
          </select>
        </label>
        <TextFilter key={tool} label="Tool id" text={tool} onChange={(text) => filter({ tool: text })} />
      </div>
      <PanelState
        live={live}
        loading="Loading the proposals"
        empty={state === "" && tool === "" ? "Nothing is proposed." : "There are no such proposals."}
        isEmpty={(data) => data.proposals.length === 0}
      >
        {(data) => {
          const mine = data.proposals.filter((each) => waitsFor(session, each));
          const others = data.proposals.filter((each) => !waitsFor(session, each));
          return (
            <div className="column" onKeyDown={moveFocus}>
              {mine.length > 0 && <Rows title={`Waits for you (${mine.length})`} proposals={mine} />}
              {others.length > 0 && <Rows title={mine.length > 0 ? "The others" : "Proposals"} proposals={others} />}
              {data.next !== null && (
                <button type="button" onClick={() => setCount(count + SOME)}>
                  More proposals
                </button>
              )}
            </div>
          );
        }}
      </PanelState>
    </>
  );
}

function Rows({ title, proposals }: { title: string; proposals: ToolProposal[] }) {
  return (
    <section className="column" aria-label={title}>
      <h2>{title}</h2>
      <ul className="review-list">
        {proposals.map((each) => (
          <li key={each.id}>
            <Link data-item className="card review-row" href={proposalHref(each.id)}>
              <span className="title-line">
                <strong>
                  <bdi>
                    <Verbatim text={each.name} />
                  </bdi>
                </strong>
                <code className="wrap">{each.tool}</code>
                <span className={`state ${TONES[each.state]}`}>{STATES[each.state]}</span>
                {each.is_stale && each.state !== "stale" && <span className="state failed">stale</span>}
                {each.checks !== null && !each.checks.passed && <span className="state failed">checks did not pass</span>}
              </span>
              <span className="faint wrap">
                {KINDS[each.kind]} for the {each.target} layer, revision {each.revision}, by <Name inButton text={each.submitted_by} />,{" "}
                <Moment ns={each.updated_at_ms * 1e6} />
              </span>
            </Link>
          </li>
        ))}
      </ul>
    </section>
  );
}
