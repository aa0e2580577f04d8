/** A form with which a person calls a tool, without a chat: decided by the policy, run at most once, and recorded. */
import { type FormEvent, useState } from "react";
import { type ArgumentField, argumentsJson, fieldProblem, fieldsOf } from "../features/demiurge/argument-fields";
import { useApprovals } from "../features/demiurge/approvals";
import { Field } from "../features/demiurge/edit-arguments";
import { useLive } from "../live/use-live";
import { Problem } from "../parts/notes";
import { Verbatim } from "../parts/verbatim";
import { Link } from "../router";
import { ApiError, type CallState, stateGet, toolCall, type ToolView } from "../sdk";
import { BlobHead } from "./json-view";
import { PanelState } from "./panel-state";

const CALLS = "demiurge/Calls@1";

export function CallForm({ tool }: { tool: ToolView }) {
  const [fields, setFields] = useState<ArgumentField[]>(() => fieldsOf(tool.input_schema, emptyCall(tool.input_schema)));
  const [problem, setProblem] = useState<unknown>();
  const [sending, setSending] = useState(false);
  const [call, setCall] = useState<string>();
  const change = (name: string, part: Partial<ArgumentField>) =>
    setFields((old) => old.map((each) => (each.name === name ? { ...each, ...part } : each)));
  const isSound = fields.every((field) => fieldProblem(field) === "");
  const send = async (event: FormEvent) => {
    event.preventDefault();
    setSending(true);
    setProblem(undefined);
    try {
      setCall(await toolCall(tool.id, argumentsJson(fields)));
    } catch (error) {
      setProblem(error);
    }
    setSending(false);
  };
  return (
    <details>
      <summary>Call this tool</summary>
      <form className="column" onSubmit={send}>
        {fields.length === 0 && <p className="faint">This tool takes no arguments.</p>}
        {fields.map((field) => (
          <Field key={field.name} field={field} onChange={(part) => change(field.name, part)} />
        ))}
        <p className="buttons">
          <button type="submit" disabled={sending || !isSound}>
            {sending ? "Sending …" : `Call ${tool.id}`}
          </button>
          <span className="faint">The policy decides the call as it does one of a model. It is recorded under your name.</span>
        </p>
      </form>
      {problem !== undefined && <Problem error={problem} />}
      {call !== undefined && <Outcome key={call} call={call} />}
    </details>
  );
}

/** Arguments with a value for each field that is needed, where the schema has one. */
function emptyCall(schema: Record<string, any>): string {
  const needed: string[] = Array.isArray(schema.required) ? schema.required : [];
  const value = (name: string) => schema.properties?.[name]?.default ?? (schema.properties?.[name]?.type === "string" ? "" : null);
  return JSON.stringify(Object.fromEntries(needed.map((name) => [name, value(name)])));
}

function Outcome({ call }: { call: string }) {
  const unit = `${CALLS}/${call}`;
  const waiting = useApprovals().live.data?.approvals.find((each) => each.unit === unit);
  const live = useLive(unit, () => stateOf(call), (record) => record.unit === unit);
  return (
    <PanelState live={live} loading="Calling" empty="The call was taken in and has not begun." isEmpty={(found) => found.state === null}>
      {({ state }) => {
        const outcome = state!.outcome;
        return (
          <section className="card" aria-label="Outcome of the call">
            <p>
              {outcome === null ? (
                waiting !== undefined ? (
                  <>
                    <strong className="state running">waits for a person</strong>:{" "}
                    <Link href={`/approvals?call=${encodeURIComponent(waiting.id ?? waiting.unit)}`}>decide it</Link>
                  </>
                ) : (
                  <strong className="state running">running</strong>
                )
              ) : (
                <strong className={`state ${outcome.ok ? "done" : "failed"}`}>{outcome.ok ? "done" : `failed: ${outcome.error_code}`}</strong>
              )}{" "}
              <Link href={`/journal?unit=${encodeURIComponent(unit)}`}>Its records</Link>
            </p>
            {outcome !== null && outcome.message !== "" && (
              <p dir="auto">
                <Verbatim text={outcome.message} />
              </p>
            )}
            {outcome?.ok === true && outcome.result_ref != null && <BlobHead address={outcome.result_ref} name="What a model is told" />}
            {outcome?.view_ref != null && <BlobHead address={outcome.view_ref} name="Redacted result" />}
          </section>
        );
      }}
    </PanelState>
  );
}

/** The state of a call; null before the world has taken it up. */
async function stateOf(call: string): Promise<{ state: CallState | null }> {
  try {
    return { state: await stateGet<CallState>(CALLS, call) };
  } catch (error) {
    if (error instanceof ApiError && error.status === 404) return { state: null };
    throw error;
  }
}
