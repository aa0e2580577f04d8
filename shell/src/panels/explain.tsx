/** The decision on a tool or on an effect, and the rules by which it is taken. What is asked about is in the address. */
import { useLive } from "../live/use-live";
import { navigate, useSearch } from "../router";
import { effectExplain, policyExplain } from "../sdk";
import { PanelState } from "./panel-state";

const DECISIONS: Record<string, string> = { allow: "allowed", require_approval: "a person decides", deny: "denied" };
export const decisionText = (decision: string) => DECISIONS[decision] ?? decision;
export const decisionState = (decision: string) => (decision === "allow" ? "done" : decision === "deny" ? "failed" : "running");

type Found = Record<string, any>;

/** A tool has no dot in its name, and a kind of effect has one. */
const ask = (what: string): Promise<Found> => (what.includes(".") ? effectExplain(what) : policyExplain(what)) as Promise<Found>;

export function Explain() {
  const what = useSearch().get("explain") ?? "";
  return (
    <section className="card" aria-label="Explain a decision">
      <form
        className="filters"
        onSubmit={(event) => {
          event.preventDefault();
          const asked = String(new FormData(event.currentTarget).get("what") ?? "").trim();
          navigate(`/manifest?explain=${encodeURIComponent(asked)}`);
        }}
      >
        <label>
          Tool, or kind of effect <input key={what} name="what" dir="ltr" required defaultValue={what} placeholder="workspace__write, http.request" />
        </label>
        <button type="submit">Explain</button>
      </form>
      {what !== "" && <Answer what={what} />}
    </section>
  );
}

function Answer({ what }: { what: string }) {
  const live = useLive(`explain ${what}`, () => ask(what), (record) => ["manifest_replaced", "approval_rule", "approval_rule_ended"].includes(record.kind));
  return (
    <PanelState live={live} loading="Asking" empty="Nobody may ask for this effect." isEmpty={(found) => found.decisions?.length === 0}>
      {(found) => (found.tool !== undefined ? <ToolAnswer found={found} /> : <EffectAnswer found={found} />)}
    </PanelState>
  );
}

function ToolAnswer({ found }: { found: Found }) {
  const rules: Found[] = found.rules ?? [];
  const standing: Found[] = found.standing_rules ?? [];
  return (
    <>
      <p>
        <code>{found.tool}</code> ({found.effect}) for <bdi>{found.caller?.actor}</bdi>:{" "}
        <strong className={`state ${decisionState(found.decision)}`}>{decisionText(found.decision)}</strong>; {found.why}
        {!found.known && ", and there is no such tool here"}.
      </p>
      {rules.length > 0 && (
        <ul className="terms">
          {rules.map((rule, place) => (
            <li key={place}>
              <code className="wrap">{Object.entries(rule).map(([name, value]) => `${name}: ${String(value)}`).join(", ")}</code>
            </li>
          ))}
        </ul>
      )}
      {found.approvers?.length > 0 && (
        <p>Somebody of each of these decides: {(found.approvers as string[][]).map((roles) => roles.join(" or ")).join("; ")}.</p>
      )}
      {standing.length > 0 && <p>In some chats nobody is asked: {standing.length === 1 ? "1 standing rule" : `${standing.length} standing rules`}, below.</p>}
      <p className="faint wrap">Policy {found.policy}</p>
    </>
  );
}

function EffectAnswer({ found }: { found: Found }) {
  return (
    <ul className="terms">
      {(found.decisions as Found[]).map((each, place) => (
        <li key={place}>
          {each.origin.kind} <code className="wrap">{each.origin.name ?? ""}</code>
          {each.cap !== null && ` under ${each.cap}`}:{" "}
          <strong className={`state ${decisionState(each.decision)}`}>{decisionText(each.decision)}</strong>; {each.why}.
        </li>
      ))}
    </ul>
  );
}
