/** The standing rules that hold: what each allows, how long, by whom; and a button that ends it. */
import { useState } from "react";
import { useLive } from "../../live/use-live";
import { Name } from "../../parts/name";
import { ErrorNote, Loading } from "../../parts/notes";
import { Moment } from "../../parts/time";
import { Verbatim } from "../../parts/verbatim";
import { Link } from "../../router";
import { type ArgumentForm, ruleDelete, rulesGet, sentence, type StandingRule } from "../../sdk";
import { mayDecide, useSession } from "../../session";
import { CHAT } from "./chat-data";
import { formsOf } from "./standing-rule";

const CHANGES = ["approval_rule", "approval_rule_ended", "intent"];

/** Returns the rules of one unit or of all. The caller has to be one who may see which calls wait. */
export function useStandingRules(unit?: string) {
  const live = useLive("standing rules", rulesGet, (record) => CHANGES.includes(record.kind));
  return { live, rules: live.data?.rules.filter((rule) => unit === undefined || rule.unit === unit) };
}

/** The rules of a chat, behind a line that says how many there are. */
export function ChatRules({ unit }: { unit: string }) {
  const { live, rules } = useStandingRules(unit);
  if (live.error !== undefined) return <ErrorNote message={sentence(live.error)} onRetry={live.reload} />;
  if (rules === undefined || rules.length === 0) return null;
  return (
    <details className="rules">
      <summary>
        {rules.length === 1 ? "1 standing rule" : `${rules.length} standing rules`}
        <span className="wide-only">: calls that nobody is asked about</span>
      </summary>
      <RuleList rules={rules} onEnded={live.reload} />
    </details>
  );
}

/** The rules of all chats, perhaps of one tool. */
export function AllRules({ tool }: { tool?: string }) {
  const { live, rules } = useStandingRules();
  if (live.error !== undefined) return <ErrorNote message={sentence(live.error)} onRetry={live.reload} />;
  if (rules === undefined) return <Loading label="Loading the standing rules" />;
  const shown = rules.filter((rule) => tool === undefined || rule.tool === tool);
  if (shown.length === 0) return <p className="faint">No standing rule holds.</p>;
  return <RuleList rules={shown} onEnded={live.reload} showChat />;
}

interface ListProps {
  rules: StandingRule[];
  onEnded: () => void;
  showChat?: boolean;
}

function RuleList({ rules, onEnded, showChat = false }: ListProps) {
  return (
    <ul className="rule-list">
      {rules.map((rule) => (
        <li key={rule.id}>
          <RuleItem rule={rule} onEnded={onEnded} showChat={showChat} />
        </li>
      ))}
    </ul>
  );
}

function RuleItem({ rule, onEnded, showChat }: { rule: StandingRule; onEnded: () => void; showChat: boolean }) {
  const session = useSession();
  const [ending, setEnding] = useState(false);
  const [problem, setProblem] = useState("");
  const chat = rule.unit.startsWith(`${CHAT}/`) ? rule.unit.slice(CHAT.length + 1) : null;
  const end = async () => {
    setEnding(true);
    setProblem("");
    await ruleDelete(rule.id).catch((error) => setProblem(sentence(error)));
    onEnded();
    setEnding(false);
  };
  return (
    <>
      {showChat && chat !== null && (
        <p>
          <Link href={`/chats/${encodeURIComponent(chat)}`}>
            <Name inButton text={chat} />
          </Link>
        </p>
      )}
      <RuleTerms tool={rule.tool} actor={rule.actor} forms={rule.pattern_json === null ? null : formsOf(rule.pattern_json)} />
      <p className="faint">
        {rule.left === 1 ? "1 call is left" : `${rule.left} calls are left`}. It ends <Moment ns={rule.expires_ns} />. Made by{" "}
        {rule.by === session.actor ? "you" : <Name text={rule.by} />}
        {rule.reason !== "" && (
          <>
            :{" "}
            <q dir="auto">
              <Name text={rule.reason} />
            </q>
          </>
        )}
      </p>
      {problem !== "" && <ErrorNote message={problem} />}
      {mayDecide(session) && (
        <button type="button" className="danger" disabled={ending} onClick={end}>
          {ending ? "Ending …" : "End this rule"}
        </button>
      )}
    </>
  );
}

/** What a rule allows, in words. `forms` is null where the caller does not see the arguments. */
export function RuleTerms({ tool, actor, forms }: { tool: string; actor: string; forms: [string, ArgumentForm][] | null }) {
  return (
    <>
      <p>
        Calls of <code>{tool}</code> for <Name text={actor} /> in this chat run without a question
        {forms === null ? "; your role does not see for which arguments." : forms.length === 0 ? ", without arguments." : ", if"}
      </p>
      {forms !== null && forms.length > 0 && (
        <ul className="terms">
          {forms.map(([name, form]) => (
            <li key={name}>
              <code>
                <Verbatim text={name} />
              </code>{" "}
              <Terms form={form} />
            </li>
          ))}
          <li>no other argument is given</li>
        </ul>
      )}
    </>
  );
}

function Terms({ form }: { form: ArgumentForm }) {
  if ("any" in form) return <>is anything</>;
  const [verb, text] = "like" in form ? ["is like", form.like] : ["is exactly", asText(form.equals)];
  return (
    <>
      {verb}{" "}
      <pre dir="auto">
        <Verbatim text={text} />
      </pre>
    </>
  );
}

const asText = (value: unknown) => (typeof value === "string" ? value : JSON.stringify(value, null, 2));
