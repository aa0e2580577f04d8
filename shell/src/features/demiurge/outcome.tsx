/** What was decided on a call: by whom, when, why, and with which arguments. */
import { useEffect, useState } from "react";
import { Arguments } from "../../parts/arguments";
import { parseObject } from "../../parts/exact-json";
import { Name } from "../../parts/name";
import { ErrorNote, Loading } from "../../parts/notes";
import { durationText } from "../../parts/time";
import { Link } from "../../router";
import { ApiError, blobText, sentence } from "../../sdk";
import { useSession } from "../../session";
import type { Decision } from "./decisions";

const VERBS: Record<Decision["verdict"], string> = {
  approve: "Approved by",
  edit: "Approved with changed arguments by",
  reject: "Rejected by",
  answer: "Answered by",
  end: "Went on without an answer, ended by",
  rule: "Allowed by a standing rule, made by",
};

interface OutcomeProps {
  decision: Decision;
  now: number;
  /** Says also how the call ended; a card that has a state of its own does not need it. */
  showEnd?: boolean;
}

export function Outcome({ decision, now, showEnd = false }: OutcomeProps) {
  const { actor } = useSession();
  const { verdict, by, reason, place, end } = decision;
  const seconds = now - decision.time_ns / 1e6;
  return (
    <p className={`outcome ${verdict === "reject" ? "reject" : "approve"}`} role="status">
      {VERBS[verdict]} {by === actor ? "you" : <Name text={by} />}, {seconds < 1000 ? "just now" : `${durationText(seconds)} ago`}
      {reason !== null && reason !== "" && (
        <>
          :{" "}
          <q dir="auto">
            <Name text={reason} />
          </q>
        </>
      )}
      {reason === null && <span className="faint"> (your role does not see the reason)</span>}
      {showEnd && verdict !== "reject" && <span className="faint"> The call: {end ?? "running"}.</span>}
      {place !== undefined && (
        <>
          {" "}
          <Link className="faint" href={`/journal?unit=${encodeURIComponent(place.unit)}&seq=${place.seq}`}>
            Its record
          </Link>
        </>
      )}
    </p>
  );
}

interface ChangedProps {
  /** The address of the changed call. */
  call: string;
  proposedJson: string | null;
}

/** The arguments that a person gave in place of the proposed ones. */
export function ChangedArguments({ call, proposedJson }: ChangedProps) {
  const [json, setJson] = useState<string>();
  const [problem, setProblem] = useState("");
  const [attempt, setAttempt] = useState(0);

  useEffect(() => {
    let gone = false;
    setProblem("");
    blobText(call).then(
      (text) => gone || setJson(String((parseObject(text) ?? {}).arguments_json ?? "")),
      (error) => {
        if (gone) return;
        setProblem(error instanceof ApiError && error.status === 404 ? "Your role does not see the changed arguments." : sentence(error));
      },
    );
    return () => {
      gone = true;
    };
  }, [call, attempt]);

  if (problem !== "") return <ErrorNote message={problem} onRetry={() => setAttempt(attempt + 1)} />;
  if (json === undefined) return <Loading label="Loading the changed arguments" />;
  return <UsedArguments json={json} proposedJson={proposedJson} />;
}

interface UsedProps {
  json: string;
  proposedJson: string | null;
  /** The person who changed them. */
  by?: string;
}

/** The arguments that a call ran with, and which of them a person changed. */
export function UsedArguments({ json, proposedJson, by }: UsedProps) {
  const { actor } = useSession();
  const names = proposedJson === null ? [] : changedNames(proposedJson, json);
  return (
    <div className="column changed">
      <h3>Arguments that were used</h3>
      {names.length > 0 && (
        <p className="faint wrap">
          Changed{by !== undefined && <> by {by === actor ? "you" : <Name text={by} />}</>}: {names.join(", ")}
        </p>
      )}
      <Arguments json={json} label="Changed arguments" />
    </div>
  );
}

/** Returns the names of the arguments that differ between two objects. */
export function changedNames(before: string, after: string): string[] {
  const [one, other] = [parseObject(before) ?? {}, parseObject(after) ?? {}];
  const names = [...new Set([...Object.keys(one), ...Object.keys(other)])];
  return names.filter((name) => JSON.stringify(one[name]) !== JSON.stringify(other[name]));
}
