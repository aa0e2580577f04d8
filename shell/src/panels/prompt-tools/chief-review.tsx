/** The review of the Chief of Staff: what it says, the form with its four questions, and going on without it. */
import { type FormEvent, useId, useState } from "react";
import { Name } from "../../parts/name";
import { ErrorNote } from "../../parts/notes";
import { Moment } from "../../parts/time";
import { Verbatim } from "../../parts/verbatim";
import { askModelPost, type ChiefAnswers, type Review, reviewPost, skipReviewPost, type ToolProposal } from "../../sdk/review";
import { isUser, useSession } from "../../session";
import { ModelRuns, type ModelRunWords } from "./model-run";
import { isChief } from "./review-words";
import { useSend } from "../../parts/use-send";

const QUESTIONS: [name: "sensible" | "overlaps" | "violates" | "changes", question: string][] = [
  ["sensible", "Does it make sense?"],
  ["overlaps", "Does it overlap core tools?"],
  ["violates", "Does it violate guardrails or the tool policy?"],
  ["changes", "What has to change?"],
];

const RECOMMENDED: Record<string, string> = { approve: "approve it", modify: "have it changed", reject: "reject it" };

const MODEL_WORDS: ModelRunWords = {
  does: "reads the proposal",
  askFirst: "Ask a model for a review",
  askAgain: "Ask a model again",
  button: "Ask the model",
  note: "What the model says is advice: a user decides.",
  failed: "The last question to a model failed; it was asked",
};

interface ChiefReviewProps {
  proposal: ToolProposal;
  isCurrent: boolean;
  reload: () => void;
}

export function ChiefReview({ proposal, isCurrent, reload }: ChiefReviewProps) {
  const session = useSession();
  const { review, state } = proposal;
  const mayReview = isChief(session) && (state === "chief_review" || state === "user_decision");
  const isReviewed = review !== null && review.kind !== "model";
  const mayAsk = (isUser(session) || isChief(session)) && (state === "chief_review" || state === "user_decision") && !isReviewed;
  const hasChief = proposal.chiefs.length > 0;
  const maySkip = isUser(session) && state === "chief_review" && !hasChief;
  return (
    <section className="card" aria-labelledby="chief-review">
      <h2 id="chief-review">Review of the Chief of Staff</h2>
      {review !== null ? (
        <GivenReview review={review} />
      ) : (
        <p className="faint">{state !== "chief_review" ? (
            "There is none of this revision."
          ) : hasChief ? (
            <>
              It waits for the Chief of Staff: <bdi>{proposal.chiefs.join(", ")}</bdi>.
            </>
          ) : (
            "This world has no Chief of Staff: a user acts as both."
          )}</p>
      )}
      {mayReview && (
        <details open={review === null}>
          <summary>{review === null ? "Review it" : "Review it again"}</summary>
          <ReviewForm proposal={proposal} isCurrent={isCurrent} reload={reload} />
        </details>
      )}
      <ModelRuns
        proposal={proposal}
        kind="review"
        words={MODEL_WORDS}
        mayAsk={mayAsk}
        post={askModelPost}
        isCurrent={isCurrent}
        reload={reload}
      />
      {maySkip && (
        <details>
          <summary>Act as Chief of Staff too</summary>
          <SkipForm proposal={proposal} isCurrent={isCurrent} reload={reload} />
        </details>
      )}
    </section>
  );
}

function GivenReview({ review }: { review: Review }) {
  if (review.kind === "user") {
    return (
      <p className="outcome" role="status">
        There was no Chief of Staff: <Name text={review.by} /> acts as both Chief and user, <Moment ns={review.at_ms * 1e6} />:{" "}
        <q dir="auto">
          <Verbatim text={review.notes} />
        </q>
      </p>
    );
  }
  return (
    <>
      <p className={`outcome ${review.recommend === "modify" ? "effect" : review.recommend}`} role="status">
        Recommends to {RECOMMENDED[review.recommend] ?? review.recommend}
      </p>
      <p className="faint">
        {review.model !== null ? (
          <>
            By the model <bdi>{review.model}</bdi>, asked by <Name text={review.by} />
          </>
        ) : (
          <>
            By <Name text={review.by} />
          </>
        )}
        , <Moment ns={review.at_ms * 1e6} />
      </p>
      <dl className="proposed">
        {[...QUESTIONS, ["notes", "Notes"] as const].map(([name, question]) =>
          review[name] === "" ? null : (
            <div key={name}>
              <dt>{question}</dt>
              <dd>
                <pre dir="auto">
                  <Verbatim text={review[name]} />
                </pre>
              </dd>
            </div>
          ),
        )}
      </dl>
    </>
  );
}

const NOTHING: ChiefAnswers = { recommend: "", sensible: "", overlaps: "", violates: "", changes: "", notes: "" };

function ReviewForm({ proposal, isCurrent, reload }: ChiefReviewProps) {
  const [answers, setAnswers] = useState(NOTHING);
  const { sending, problem, send } = useSend(reload);
  const id = useId();
  const isWhole = answers.recommend !== "" && QUESTIONS.every(([name]) => answers[name].trim() !== "");
  const submit = (event: FormEvent) => {
    event.preventDefault();
    const taken = send("review", () => reviewPost(proposal.id, proposal.digest, answers));
    void taken.then((isTaken) => isTaken && setAnswers(NOTHING));
  };
  return (
    <form className="decision" onSubmit={submit}>
      {QUESTIONS.map(([name, question]) => (
        <Answer key={name} id={`${id}-${name}`} label={question} value={answers[name]} onChange={(text) => setAnswers({ ...answers, [name]: text })} />
      ))}
      <Answer id={`${id}-notes`} label="Notes (may be empty)" value={answers.notes} onChange={(notes) => setAnswers({ ...answers, notes })} />
      <fieldset className="recommend">
        <legend>Recommendation to the user</legend>
        {Object.entries(RECOMMENDED).map(([value, words]) => (
          <label key={value} className="given">
            <input
              type="radio"
              name={`${id}-recommend`}
              checked={answers.recommend === value}
              onChange={() => setAnswers({ ...answers, recommend: value })}
            />{" "}
            {words}
          </label>
        ))}
      </fieldset>
      {problem !== "" && <ErrorNote message={problem} />}
      <div className="buttons">
        <button type="submit" className="primary" disabled={!isWhole || !isCurrent || sending !== undefined}>
          {sending !== undefined ? "Sending …" : "Send the review"}
        </button>
        {!isWhole && <span className="faint">Answer all four questions, and recommend something.</span>}
      </div>
    </form>
  );
}

function Answer({ id, label, value, onChange }: { id: string; label: string; value: string; onChange: (text: string) => void }) {
  return (
    <>
      <label htmlFor={id}>{label}</label>
      <textarea id={id} dir="auto" rows={2} maxLength={4000} value={value} onChange={(event) => onChange(event.target.value)} />
    </>
  );
}

function SkipForm({ proposal, isCurrent, reload }: ChiefReviewProps) {
  const [reason, setReason] = useState("");
  const { sending, problem, send } = useSend(reload);
  const id = useId();
  return (
    <form
      className="decision"
      onSubmit={(event) => {
        event.preventDefault();
        void send("skip", () => skipReviewPost(proposal.id, proposal.digest, reason));
      }}
    >
      <Answer id={id} label="Why you go on without a second reader (it is recorded)" value={reason} onChange={setReason} />
      {problem !== "" && <ErrorNote message={problem} />}
      <div className="buttons">
        <button type="submit" disabled={reason.trim() === "" || !isCurrent || sending !== undefined}>
          {sending !== undefined ? "Sending …" : "Go on as both"}
        </button>
      </div>
    </form>
  );
}
