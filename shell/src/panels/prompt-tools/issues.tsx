/** The issues of the world: the list with its filters and a form for a new one, or the issue that the address names. */
import { type FormEvent, useState } from "react";
import { useLive } from "../../live/use-live";
import { moveFocus } from "../../parts/list-keys";
import { ErrorNote } from "../../parts/notes";
import { Moment } from "../../parts/time";
import { Verbatim } from "../../parts/verbatim";
import { Link, navigate, usePath, useSearch } from "../../router";
import { type Issue, issuePost, issuesGet } from "../../sdk/review";
import { useSession } from "../../session";
import { PanelState } from "../panel-state";
import "../panels.css";
import { IssuePage } from "./issue-page";
import "./review.css";
import { idIn, ISSUE_STATES, ISSUE_TONES, issueHref, ISSUES, isOfIssues, mayWriteIssues, withQuery } from "./review-words";
import { TextFilter } from "./text-filter";
import { useSend } from "../../parts/use-send";

/** So many issues are shown at first. */
const SOME = 100;

export default function Issues() {
  const id = idIn(usePath(), ISSUES);
  return id === null ? <IssueList /> : <IssuePage key={id} id={id} />;
}

function IssueList() {
  const search = useSearch();
  const session = useSession();
  const given = { status: search.get("status") ?? "", assignee: search.get("assignee") ?? "", tag: search.get("tag") ?? "" };
  const [count, setCount] = useState(SOME);
  const query = { status: given.status || undefined, assignee: given.assignee || undefined, tag: given.tag || undefined, limit: count };
  const live = useLive(`issues ${JSON.stringify(query)}`, () => issuesGet(query), isOfIssues);
  const isFiltered = Object.values(given).some((each) => each !== "");
  const filter = (changed: Record<string, string>) => navigate(withQuery(ISSUES, { ...given, ...changed }), { replace: true });
  return (
    <>
      <div className="filters">
        <label>
          Status{" "}
          <select value={given.status} onChange={(event) => filter({ status: event.target.value })}>
            <option value="">any</option>
            {Object.entries(ISSUE_STATES).map(([value, words]) => (
              <option key={value} value={value}>
                {words}
              </option>
            ))}
          </select>
        </label>
        <TextFilter key={`assignee ${given.assignee}`} label="Assignee" text={given.assignee} onChange={(assignee) => filter({ assignee })} />
        <TextFilter key={`tag ${given.tag}`} label="Tag" text={given.tag} onChange={(tag) => filter({ tag })} />
        {isFiltered && <Link href={ISSUES}>All issues</Link>}
      </div>
      {mayWriteIssues(session) && <NewIssue />}
      <PanelState
        live={live}
        loading="Loading the issues"
        empty={isFiltered ? "There are no such issues." : "There is no issue."}
        isEmpty={(data) => data.issues.length === 0}
      >
        {(data) => (
          <>
            <ul className="review-list" aria-label="Issues" onKeyDown={moveFocus}>
              {data.issues.map((each) => (
                <li key={each.id}>
                  <Row issue={each} />
                </li>
              ))}
            </ul>
            {data.next !== null && (
              <button type="button" onClick={() => setCount(count + SOME)}>
                More issues
              </button>
            )}
          </>
        )}
      </PanelState>
    </>
  );
}

function Row({ issue }: { issue: Issue }) {
  return (
    <Link data-item className="card review-row" href={issueHref(issue.id)}>
      <span className="title-line">
        <strong className="wrap">
          <bdi>
            <Verbatim text={issue.title} />
          </bdi>
        </strong>
        <span className={`state ${ISSUE_TONES[issue.status]}`}>{ISSUE_STATES[issue.status]}</span>
        {issue.priority !== "normal" && <span className="tag">{issue.priority}</span>}
      </span>
      <span className="faint wrap">
        {issue.assignee !== "" && (
          <>
            For <bdi>{issue.assignee}</bdi>,{" "}
          </>
        )}
        opened by <bdi>{issue.opened_by}</bdi>, <Moment ns={issue.updated_at_ms * 1e6} />,{" "}
        {issue.comment_count === 1 ? "1 comment" : `${issue.comment_count} comments`}
      </span>
    </Link>
  );
}

const EMPTY = { title: "", body: "", assignee: "", tags: "", priority: "normal" };

function NewIssue() {
  const [given, setGiven] = useState(EMPTY);
  const { sending, problem, send } = useSend(() => undefined);
  const change = (name: keyof typeof EMPTY) => (event: { target: { value: string } }) => setGiven({ ...given, [name]: event.target.value });
  const submit = (event: FormEvent) => {
    event.preventDefault();
    const tags = given.tags.split(",").map((tag) => tag.trim());
    void send("issue", async () => {
      const opened = await issuePost({ ...given, title: given.title.trim(), tags: tags.filter((tag) => tag !== "") });
      navigate(issueHref(opened.id));
    });
  };
  return (
    <details>
      <summary>Open an issue</summary>
      <form className="card decision new-issue" onSubmit={submit}>
        <label>
          Title <input dir="auto" required maxLength={200} value={given.title} onChange={change("title")} />
        </label>
        <label>
          Text (Markdown) <textarea dir="auto" rows={5} maxLength={100_000} value={given.body} onChange={change("body")} />
        </label>
        <div className="field-row">
          <label>
            Assign to <input dir="auto" maxLength={256} value={given.assignee} onChange={change("assignee")} />
          </label>
          <label>
            Tags, with commas between <input dir="auto" value={given.tags} onChange={change("tags")} />
          </label>
          <label>
            Priority{" "}
            <select value={given.priority} onChange={change("priority")}>
              {["low", "normal", "high", "urgent"].map((each) => (
                <option key={each}>{each}</option>
              ))}
            </select>
          </label>
        </div>
        {problem !== "" && <ErrorNote message={problem} />}
        <div className="buttons">
          <button type="submit" className="primary" disabled={sending !== undefined || given.title.trim() === ""}>
            {sending !== undefined ? "Opening …" : "Open the issue"}
          </button>
        </div>
      </form>
    </details>
  );
}
