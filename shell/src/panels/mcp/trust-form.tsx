/** The decision on tools of an MCP server: the rule, the effect level, and which fields of results screens show. */
import { type FormEvent, useId, useState } from "react";
import { ErrorNote } from "../../parts/notes";
import { type Effect, type McpTool, mcpTrust, type Rule } from "../../sdk/mcp";
import { useSend } from "../../parts/use-send";
import { EFFECT_WORDS, RULE_WORDS } from "./mcp-words";

interface TrustFormProps {
  server: string;
  /** The tools as this person reads them: exactly these definitions are trusted. */
  tools: McpTool[];
  reload: () => void;
}

export function TrustForm({ server, tools, reload }: TrustFormProps) {
  const [first] = tools;
  const only = tools.length === 1 ? first : undefined;
  const [rule, setRule] = useState<Rule>(only?.rule ?? "ask");
  const [effect, setEffect] = useState<Effect | "">(only?.effect ?? "");
  const [fields, setFields] = useState(only?.public?.join(", ") ?? "");
  const { sending, problem, send } = useSend(reload);
  const id = useId();
  const trust = (event: FormEvent) => {
    event.preventDefault();
    const pins = Object.fromEntries(tools.map((tool) => [tool.tool_id, tool.found_pin ?? ""]));
    const shown = fields.split(",").map((each) => each.trim()).filter((each) => each !== "");
    void send("trust", () => mcpTrust(server, { tools: pins, rule, effect: effect === "" ? null : effect, public: shown }));
  };
  return (
    <form className="decision trust" onSubmit={trust}>
      <fieldset className="recommend">
        <legend>Rule</legend>
        {(["ask", "allow"] as const).map((each) => (
          <label key={each}>
            <input type="radio" name={`${id}-rule`} checked={rule === each} onChange={() => setRule(each)} /> {each}: {RULE_WORDS[each]}
          </label>
        ))}
      </fieldset>
      <label htmlFor={`${id}-effect`}>What it may do; the stricter of this and the server's hint counts</label>
      <select id={`${id}-effect`} value={effect} onChange={(event) => setEffect(event.target.value as Effect | "")}>
        <option value="">as the server's hint says</option>
        {(Object.keys(EFFECT_WORDS) as Effect[]).map((each) => (
          <option key={each} value={each}>
            {each}: {EFFECT_WORDS[each]}
          </option>
        ))}
      </select>
      <label htmlFor={`${id}-public`}>Fields of its results that screens and logs show, with commas between</label>
      <input id={`${id}-public`} value={fields} onChange={(event) => setFields(event.target.value)} />
      {problem !== "" && <ErrorNote message={problem} />}
      <p className="buttons">
        <button type="submit" className="primary" disabled={sending !== undefined}>
          {sending !== undefined ? "Sending …" : tools.length === 1 ? "Trust this text" : `Trust these ${tools.length} texts`}
        </button>
      </p>
    </form>
  );
}
