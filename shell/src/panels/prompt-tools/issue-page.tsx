/** One issue: its text, its comments, and what this caller may do with it. */
import { type FormEvent, lazy, Suspense, useId, useState } from "react";
import { useLive } from "../../live/use-live";
import { ScrollBox } from "../../parts/arguments";
import { Name } from "../../parts/name";
import { ErrorNote, Loading } from "../../parts/notes";
import { Moment } from "../../parts/time";
import { useSubject } from "../../parts/title";
import { Verbatim } from "../../parts/verbatim";
import { Link } from "../../router";
import { actionPost, commentPost, type Issue, type IssueAction, issueClose, issueGet, issueReopen } from "../../sdk/review";
import { isUser, useSession } from "../../session";
import { PanelState } from "../panel-state";
import { ReviewActions } from "./review-actions";
import { ISSUE_STATES, ISSUE_TONES, ISSUES, issueUnit, isChief, mayWriteIssues, proposalHref, withQuery } from "./review-words";
import { useSend } from "../../parts/use-send";

const IssueText = lazy(() => import("./issue-text"));

export function IssuePage({ id }: { id: string }) {
  const live = useLive(`issue ${id}`, () => issueGet(id), (record) => record.unit === issueUnit(id));
  return (
    <>
      <p>
        <Link href={ISSUES}>All issues</Link>
      </p>
      <PanelState live={live} loading="Loading the issue" empty="There is no such issue." isEmpty={() => false}>
        {(issue) => <OneIssue key={issue.id} issue={issue} reload={live.reload} />}
      </PanelState>
    </>
  );
}

function OneIssue({ issue, reload }: { issue: Issue; reload: () => void }) {
  const session = useSession();
  useSubject(`Issue: ${issue.title}`);
  return (
    <article className="column issue" aria-label="Issue">
      <div className="title-line">
        <h2>
          <bdi>
            <Verbatim text={issue.title} />
          </bdi>
        </h2>
        <span role="status" className={`state ${ISSUE_TONES[issue.status]}`}>
          {ISSUE_STATES[issue.status]}
        </span>
        {issue.priority !== "normal" && <span className="tag">{issue.priority}</span>}
      </div>
      <p className="faint wrap">
        Opened by <Name text={issue.opened_by} />, <Moment ns={issue.created_at_ms * 1e6} />
        {issue.assignee !== "" && (
          <>
            ; for{" "}
            <Link href={withQuery(ISSUES, { assignee: issue.assignee })}>
              <bdi>{issue.assignee}</bdi>
            </Link>
          </>
        )}
        {issue.closed_at_ms !== null && (
          <>
            ; closed <Moment ns={issue.closed_at_ms * 1e6} />
          </>
        )}
      </p>
      {issue.tags.length > 0 && (
        <p className="tags">
          {issue.tags.map((tag) => (
            <Link key={tag} className="tag wrap" href={withQuery(ISSUES, { tag })}>
              {tag}
            </Link>
          ))}
        </p>
      )}
      {issue.proposal !== null && (
        <p>
          <Link href={proposalHref(issue.proposal)}>Open the proposal</Link>
        </p>
      )}
      <TextAndActions issue={issue} reload={reload} />
      <Comments issue={issue} />
      {mayWriteIssues(session) && <CommentForm issue={issue} reload={reload} />}
    </article>
  );
}

const ERASED = "The text of this issue was erased.";

/** The text, and the decision on the proposal that it is about: the text has to be read to its end before an approval. */
function TextAndActions({ issue, reload }: { issue: Issue; reload: () => void }) {
  const sending = useSend(reload);
  const shows = `${issue.digest} ${issue.body}`;
  const [begun, setBegun] = useState(shows);
  const [wholeSeen, setWholeSeen] = useState<string>();
  const [isDrawn, setIsDrawn] = useState<string>();
  const isCurrent = begun === shows;
  const decides = issue.actions.length > 0 && issue.digest !== null;
  const decide = (action: IssueAction, reason: string, read: boolean) =>
    void sending.send(action, () => actionPost(issue.id, action, issue.digest!, reason, read));
  const { body } = issue;
  if (!decides && !body) return <p className="card faint">{body === null ? ERASED : "There is no text."}</p>;
  const text =
    body === null ? (
      <p className="faint">{ERASED}</p>
    ) : (
      <Suspense fallback={<Loading label="Loading the text" />}>
        <IssueText text={body} level={3} onDrawn={() => setIsDrawn(shows)} />
      </Suspense>
    );
  const unread = wholeSeen === shows ? "" : "Read the text to its end first.";
  if (!decides) return <div className="card">{text}</div>;
  return (
    <>
      {!isCurrent && (
        <div role="alert" className="mark">
          <strong>This issue was changed</strong> after you opened it: what you see now is about another revision. Nothing was approved.{" "}
          <button type="button" onClick={() => setBegun(shows)}>
            Read what is new
          </button>
        </div>
      )}
      <ScrollBox label="Text of the issue" shows={`${shows} ${isDrawn === shows}`} onWholeSeen={() => isDrawn === shows && setWholeSeen(shows)}>
        {text}
      </ScrollBox>
      <section className="card" aria-labelledby="issue-decision">
        <h3 id="issue-decision">Decision on the proposal</h3>
        <ReviewActions
          digest={issue.digest}
          lacks={body === null ? "Its text was erased: approve on the page of the proposal." : unread}
          isCurrent={isCurrent}
          sending={sending}
          onDecide={decide}
        />
      </section>
    </>
  );
}

function Comments({ issue }: { issue: Issue }) {
  if (issue.comments.length === 0) return <p className="faint">There is no comment yet.</p>;
  return (
    <section className="column" aria-labelledby="comments">
      <h3 id="comments">Comments</h3>
      {issue.comments.map((each, place) => (
        <div key={place} className="card comment">
          <p className="faint wrap">
            <Name text={each.by} />, <Moment ns={each.at_ms * 1e6} />
            {each.action !== null && <span className="tag">{each.action}</span>}
          </p>
          <Suspense fallback={<Loading label="Loading the comment" />}>
            <IssueText text={each.body} level={4} />
          </Suspense>
        </div>
      ))}
    </section>
  );
}

/** A comment, and closing or opening again with the comment as its reason. An issue of a proposal is closed by the
 * decision on the proposal alone. */
function CommentForm({ issue, reload }: { issue: Issue; reload: () => void }) {
  const session = useSession();
  const [text, setText] = useState("");
  const { sending, problem, send } = useSend(reload);
  const field = useId();
  const isClosed = issue.status === "closed";
  const mayClose = isUser(session) || isChief(session) || session.actor === issue.opened_by;
  const isEmpty = text.trim() === "";
  const say = async (what: string, request: () => Promise<unknown>) => {
    if (await send(what, request)) setText("");
  };
  const comment = (event: FormEvent) => {
    event.preventDefault();
    void say("comment", () => commentPost(issue.id, text));
  };
  const change = () => say("status", () => (isClosed ? issueReopen(issue.id, text) : issueClose(issue.id, text)));
  return (
    <form className="decision" onSubmit={comment}>
      <label htmlFor={field}>Comment (Markdown)</label>
      <textarea id={field} dir="auto" rows={3} maxLength={20_000} value={text} onChange={(event) => setText(event.target.value)} />
      {problem !== "" && <ErrorNote message={problem} />}
      <div className="buttons">
        <button type="submit" disabled={sending !== undefined || isEmpty}>
          {sending === "comment" ? "Sending …" : "Comment"}
        </button>
        {issue.proposal === null && mayClose && (
          <button type="button" disabled={sending !== undefined} onClick={change}>
            {sending === "status" ? "Sending …" : `${isClosed ? "Open it again" : "Close the issue"}${isEmpty ? "" : " with this comment"}`}
          </button>
        )}
      </div>
      {issue.proposal !== null && <p className="faint">This issue belongs to a proposal: it is closed by the decision on it.</p>}
      {issue.proposal === null && !mayClose && <p className="faint">Its author, the Chief or a user closes this issue or opens it again.</p>}
    </form>
  );
}
