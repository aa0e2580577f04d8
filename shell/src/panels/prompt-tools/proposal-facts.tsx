/** Who proposed what and when, and the digests. */
import { Name } from "../../parts/name";
import { Moment } from "../../parts/time";
import { Link } from "../../router";
import type { ToolProposal } from "../../sdk/review";
import { issueHref, proposalUnit } from "./review-words";

export function Facts({ proposal }: { proposal: ToolProposal }) {
  return (
    <dl className="facts">
      <dt>Tool</dt>
      <dd className="wrap">
        <code>{proposal.tool}</code>
      </dd>
      <dt>Proposed by</dt>
      <dd className="wrap">
        <Name text={proposal.submitted_by} />, <Moment ns={proposal.submitted_at_ms * 1e6} />
        {proposal.updated_at_ms - proposal.submitted_at_ms > 60_000 && (
          <>
            ; last change <Moment ns={proposal.updated_at_ms * 1e6} />
          </>
        )}
      </dd>
      <dt>Digest</dt>
      <dd className="wrap">
        <code>{proposal.digest}</code>
      </dd>
      {proposal.base !== null && (
        <>
          <dt>Changes</dt>
          <dd className="wrap">
            the tool <code>{proposal.base}</code>
          </dd>
        </>
      )}
      <dt>More</dt>
      <dd>
        <Link href={issueHref(proposal.review_issue)}>Issue of the review</Link>
        {proposal.review !== null && (
          <>
            , <Link href={issueHref(proposal.decision_issue)}>issue of the decision</Link>
          </>
        )}
        , <Link href={`/journal?unit=${encodeURIComponent(proposalUnit(proposal.id))}`}>its records</Link>
      </dd>
    </dl>
  );
}
