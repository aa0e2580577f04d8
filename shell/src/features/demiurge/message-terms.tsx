/** What answers one message, in place of what the chat has: the model, the provider, the tools, and the choice of a tool. */
import { useId } from "react";
import type { MessageTerms } from "../../sdk";

/** What is typed into the form. `named`: the tool of the choice "this tool". */
export interface TypedTerms {
  model: string;
  provider: string;
  toolset: string;
  choice: "" | "auto" | "none" | "required" | "named";
  named: string;
}

export const NO_TERMS: TypedTerms = { model: "", provider: "", toolset: "", choice: "", named: "" };

/** Returns the fields of a message; what is left empty is not sent. */
export function messageTerms({ model, provider, toolset, choice, named }: TypedTerms): MessageTerms {
  return {
    ...(model.trim() !== "" && { model: model.trim() }),
    ...(provider.trim() !== "" && { provider: provider.trim() }),
    ...(toolset.trim() !== "" && { tools_ref: toolset.trim() }),
    ...(choice !== "" && { tool_choice: choice === "named" ? { name: named.trim() } : choice }),
  };
}

interface TermsFormProps {
  terms: TypedTerms;
  onChange: (terms: TypedTerms) => void;
}

export function TermsForm({ terms, onChange }: TermsFormProps) {
  const id = useId();
  const field = (name: "model" | "provider" | "toolset" | "named", label: string, placeholder: string) => (
    <div className="field">
      <label htmlFor={`${id}-${name}`}>{label}</label>
      <input
        id={`${id}-${name}`}
        dir="ltr"
        autoComplete="off"
        placeholder={placeholder}
        value={terms[name]}
        onChange={(event) => onChange({ ...terms, [name]: event.target.value })}
      />
    </div>
  );
  return (
    <details className="message-terms">
      <summary>Model and tools for the next message</summary>
      <div className="field-row">
        {field("model", "Model", "the chat's")}
        {field("provider", "Provider", "the chat's")}
        {field("toolset", "Toolset", "the chat's, or sha256:…")}
        <div className="field">
          <label htmlFor={`${id}-choice`}>Choice of a tool</label>
          <select
            id={`${id}-choice`}
            value={terms.choice}
            onChange={(event) => onChange({ ...terms, choice: event.target.value as TypedTerms["choice"] })}
          >
            <option value="">as the chat has it</option>
            <option value="auto">the model decides</option>
            <option value="required">it must call a tool</option>
            <option value="none">it may call none</option>
            <option value="named">it must call this tool</option>
          </select>
        </div>
        {terms.choice === "named" && field("named", "Tool", "the id of a tool")}
      </div>
    </details>
  );
}
