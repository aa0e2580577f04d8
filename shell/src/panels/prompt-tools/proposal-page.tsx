/** One proposal of a prompt tool: what is proposed, whole; what the checks and the Chief say; and the decision.
 *
 * What is sent names the digest of the revision that this person began to read. When another revision comes meanwhile,
 * nothing can be sent before they turn to it. */
import { useEffect, useRef, useState } from "react";
import { useLive } from "../../live/use-live";
import { useSubject } from "../../parts/title";
import { Verbatim } from "../../parts/verbatim";
import { Link } from "../../router";
import { proposalDiff, proposalGet, type ToolProposal } from "../../sdk/review";
import { PanelState } from "../panel-state";
import { ChecksReport } from "./checks-report";
import { ChiefReview } from "./chief-review";
import { Decision } from "./decision";
import { Facts } from "./proposal-facts";
import { Examples, ProposedTool, Rationale } from "./proposed-tool";
import { isOfRegistry, isOpen, KINDS, modelRunUnit, PROPOSALS, proposalUnit, STATES, TONES } from "./review-words";
import { ToolDifferences } from "./tool-differences";
import { TestCases } from "./verdicts";

export function ProposalPage({ id }: { id: string }) {
  const live = useLive(
    `proposal ${id}`,
    () => proposalGet(id),
    (record) => record.unit === proposalUnit(id) || record.unit === modelRunUnit(id) || isOfRegistry(record),
  );
  return (
    <>
      <p>
        <Link href={PROPOSALS}>All proposals</Link>
      </p>
      <PanelState live={live} loading="Loading the proposal" empty="There is no such proposal." isEmpty={() => false}>
        {(proposal) => <OneProposal key={proposal.id} proposal={proposal} reload={live.reload} />}
      </PanelState>
    </>
  );
}

function OneProposal({ proposal, reload }: { proposal: ToolProposal; reload: () => void }) {
  const [begun, setBegun] = useState(proposal.digest);
  const [wholeSeen, setWholeSeen] = useState<string>();
  const [hasDiff, setHasDiff] = useState<string>();
  const title = useRef<HTMLHeadingElement>(null);
  const { body, digest } = proposal;
  useSubject(`Proposal: ${proposal.name}`);
  const isCurrent = begun === digest;
  const findings = proposal.checks?.report?.static ?? [];
  const needsDiff = proposal.kind !== "new";
  const turnTo = () => {
    setBegun(digest);
    title.current?.focus();
  };
  return (
    <div className="review">
      <header className="column">
        <div className="title-line">
          <h2 ref={title} tabIndex={-1}>
            <bdi>
              <Verbatim text={proposal.name} />
            </bdi>
          </h2>
          <span className="tag">{KINDS[proposal.kind]}</span>
          <span className="tag">for the {proposal.target} layer</span>
          <span className="tag">revision {proposal.revision}</span>
          <span className={`state ${TONES[proposal.state]}`} role="status">
            {STATES[proposal.state]}
          </span>
        </div>
        {!isCurrent && isOpen(proposal) && (
          <div role="alert" className="mark">
            <strong>This proposal was revised</strong> after you opened it: what you see now is revision {proposal.revision}. Nothing was approved.{" "}
            <button type="button" onClick={turnTo}>
              Read revision {proposal.revision}
            </button>
          </div>
        )}
        {proposal.is_stale && isOpen(proposal) && (
          <p className="mark">
            <strong>Stale</strong>: another version of the tool is live than the one that this proposal changes. It has to be revised.
          </p>
        )}
        <Facts proposal={proposal} />
      </header>
      <div className="column review-body">
        {body === null ? (
          <p className="mark">
            <strong>Erased</strong>: the text of this proposal is gone for good.
          </p>
        ) : (
          <>
            {needsDiff && <Changes proposal={proposal} onShown={() => setHasDiff(digest)} />}
            <ProposedTool body={body} findings={findings} />
            <Rationale body={body} findings={findings} />
            <Examples body={body} findings={findings} />
            <TestCases proposal={proposal} findings={findings} isCurrent={isCurrent} reload={reload} />
            {(!needsDiff || hasDiff === digest) && <EndMark key={digest} onSeen={() => setWholeSeen(digest)} />}
          </>
        )}
        <ChecksReport proposal={proposal} reload={reload} />
        <ChiefReview proposal={proposal} isCurrent={isCurrent} reload={reload} />
        {body !== null && (
          <details className="arguments">
            <summary>Raw JSON</summary>
            <pre dir="ltr">
              <Verbatim text={JSON.stringify(body, null, 2)} />
            </pre>
          </details>
        )}
      </div>
      <Decision proposal={proposal} wholeSeen={wholeSeen === digest} isCurrent={isCurrent} reload={reload} />
    </div>
  );
}

function Changes({ proposal, onShown }: { proposal: ToolProposal; onShown: () => void }) {
  const live = useLive(`difference ${proposal.id} ${proposal.digest}`, () => proposalDiff(proposal.id), () => false);
  useEffect(() => {
    if (live.data !== undefined) onShown();
  }, [live.data]);
  return (
    <section className="card" aria-labelledby="changes">
      <h2 id="changes">What changes</h2>
      <PanelState live={live} loading="Loading the differences" empty="No field differs." isEmpty={(data) => data.fields.length === 0}>
        {(data) => <ToolDifferences fields={data.fields} />}
      </PanelState>
    </section>
  );
}

/** The end of what has to be read before an approval. It counts as seen also where a jump to the page's end passes it. */
function EndMark({ onSeen }: { onSeen: () => void }) {
  const end = useRef<HTMLDivElement>(null);
  useEffect(() => {
    const tell = (seen: IntersectionObserverEntry[]) => seen.some((each) => each.isIntersecting) && onSeen();
    const watch = new IntersectionObserver(tell, { root: end.current!.closest(".panel"), rootMargin: "1000000px 0px 0px 0px" });
    watch.observe(end.current!);
    return () => watch.disconnect();
  }, []);
  return <div ref={end} className="end" data-end />;
}
