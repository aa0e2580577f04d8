/** The second step that allows further calls of a chat: what they may be like, how many, how long. It shows the exact
 * rule before anything is sent. */
import { useEffect, useId, useRef, useState } from "react";
import { ScrollBox } from "../../parts/arguments";
import { parseObject } from "../../parts/exact-json";
import { Moment } from "../../parts/time";
import { Verbatim } from "../../parts/verbatim";
import type { Approval, ArgumentForm, NewRule } from "../../sdk";
import { useApprovals } from "./approvals";
import { HOURS, isLike, MAX_CALLS } from "./standing-rule";
import { RuleTerms } from "./standing-rules";

interface AllowProps {
  approval: Approval;
  argumentsJson: string;
  sending: boolean;
  onAllow: (rule: Omit<NewRule, "reason">) => void;
  onBack: () => void;
}

export function AllowForm({ approval, argumentsJson, sending, onAllow, onBack }: AllowProps) {
  const { now } = useApprovals();
  const [begun] = useState(now);
  const values = Object.entries(parseObject(argumentsJson) ?? {});
  const [forms, setForms] = useState<Record<string, ArgumentForm>>(() =>
    Object.fromEntries(values.map(([name, value]) => [name, { equals: value }])),
  );
  const [count, setCount] = useState("10");
  const [hours, setHours] = useState(8);
  const [seen, setSeen] = useState("");
  const heading = useRef<HTMLHeadingElement>(null);
  const id = useId();
  useEffect(() => heading.current?.focus(), []);

  const calls = /^\d{1,4}$/.test(count) ? Number(count) : 0;
  const badCount = calls < 1 || calls > MAX_CALLS;
  const misses = values.filter(([name, value]) => {
    const form = forms[name]!;
    return "like" in form && !isLike(form.like, String(value));
  });
  const shows = JSON.stringify([forms, calls, hours]);
  const hint = badCount
    ? `The number of calls is 1 to ${MAX_CALLS}.`
    : misses.length > 0
      ? "The rule has to allow this call too."
      : seen !== shows
        ? "Read the rule to its end first."
        : "";

  return (
    <section className="second-step" aria-labelledby={`${id}-title`}>
      <h3 id={`${id}-title`} ref={heading} tabIndex={-1}>
        Allow further calls in this chat
      </h3>
      {values.map(([name, value]) => (
        <FormField
          key={name}
          name={name}
          value={value}
          form={forms[name]!}
          misses={misses.some(([missed]) => missed === name)}
          onChange={(form) => setForms((old) => ({ ...old, [name]: form }))}
        />
      ))}
      <div className="field-row">
        <div className="field">
          <label htmlFor={`${id}-count`}>Number of calls, with this one</label>
          <input
            id={`${id}-count`}
            inputMode="numeric"
            value={count}
            aria-invalid={badCount || undefined}
            onChange={(event) => setCount(event.target.value.trim())}
          />
        </div>
        <div className="field">
          <label htmlFor={`${id}-hours`}>Ends after</label>
          <select id={`${id}-hours`} value={hours} onChange={(event) => setHours(Number(event.target.value))}>
            {HOURS.map(([each, text]) => (
              <option key={each} value={each}>
                {text}
              </option>
            ))}
          </select>
        </div>
      </div>
      <div className="column">
        <h4>The rule</h4>
        <ScrollBox label="The rule" shows={shows} onWholeSeen={() => setSeen(shows)}>
          <RuleTerms tool={approval.tool} actor={approval.actor} forms={Object.entries(forms)} />
          <p>
            It ends <Moment ns={(begun + hours * 3_600_000) * 1e6} />, or after {calls === 1 ? "1 call" : `${calls} calls`}, this
            one included, or when somebody ends it.
          </p>
        </ScrollBox>
        <p className="faint">
          Nobody is asked about these calls. The policy, grants and budgets can still refuse them. When the tool or the
          rule that asked changes, a person is asked again.
        </p>
      </div>
      <div className="buttons">
        <button type="button" disabled={sending} onClick={onBack}>
          Back
        </button>
        <button
          type="button"
          data-key="a"
          className="primary"
          disabled={sending || hint !== ""}
          onClick={() => onAllow({ pattern: forms, count: calls, lasts_s: hours * 3600 })}
        >
          {sending ? "Allowing …" : "Allow these calls"}
        </button>
        {hint !== "" && <span className="faint">{hint}</span>}
      </div>
    </section>
  );
}

interface FieldProps {
  name: string;
  value: unknown;
  form: ArgumentForm;
  misses: boolean;
  onChange: (form: ArgumentForm) => void;
}

function FormField({ name, value, form, misses, onChange }: FieldProps) {
  const id = useId();
  const kind = "like" in form ? "like" : "any" in form ? "any" : "equals";
  const choose = (chosen: string) =>
    onChange(chosen === "like" ? { like: String(value) } : chosen === "any" ? { any: true } : { equals: value });
  return (
    <div className="field">
      <label htmlFor={id}>
        <code>
          <Verbatim text={name} />
        </code>
      </label>
      <select id={id} value={kind} onChange={(event) => choose(event.target.value)}>
        <option value="equals">exactly as in this call</option>
        {typeof value === "string" && <option value="like">like a pattern</option>}
        <option value="any">any value</option>
      </select>
      {"like" in form && (
        <>
          <input
            dir="ltr"
            aria-label={`Pattern of ${name}`}
            aria-invalid={misses || undefined}
            aria-describedby={`${id}-about`}
            value={form.like}
            onChange={(event) => onChange({ like: event.target.value })}
          />
          <p className={misses ? "bad" : "faint"} id={`${id}-about`}>
            {misses ? "This call does not match the pattern." : "* stands for any characters but / and \\."}
          </p>
        </>
      )}
    </div>
  );
}
