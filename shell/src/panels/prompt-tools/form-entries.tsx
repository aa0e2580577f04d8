/** A list in a form: each entry has its fields, and entries are added and removed within the limits. */
import { type ReactNode, useEffect, useId, useRef } from "react";
import type { Limits } from "./proposal-draft";

interface EntriesProps<T> {
  legend: string;
  field: string;
  about: string;
  limits: Limits;
  entries: T[];
  problem: string;
  /** What one is called. */
  name: string;
  make: () => T;
  onChange: (entries: T[]) => void;
  children: (entry: T, at: number, onChange: (entry: T) => void) => ReactNode;
}

export function Entries<T>({ legend, field, about, limits, entries, problem, name, make, onChange, children }: EntriesProps<T>) {
  const id = useId();
  const add = useRef<HTMLButtonElement>(null);
  const list = useRef<HTMLFieldSetElement>(null);
  const added = useRef(false);
  useEffect(() => {
    if (added.current) [...(list.current?.querySelectorAll<HTMLElement>(":scope > fieldset") ?? [])].at(-1)?.querySelector<HTMLElement>("input, textarea")?.focus();
    added.current = false;
  }, [entries.length]);
  return (
    <fieldset ref={list} aria-describedby={id}>
      <legend>{legend}</legend>
      <p className="faint" id={id}>
        {about}
      </p>
      {problem !== "" && <p className="bad">{problem}</p>}
      {entries.map((entry, at) => (
        <fieldset key={at}>
          <legend>
            {name[0]!.toUpperCase() + name.slice(1)} {at + 1}
          </legend>
          {children(entry, at, (changed) => onChange(entries.map((each, place) => (place === at ? changed : each))))}
          {entries.length > limits[0] && (
            <div className="buttons">
              <button
                type="button"
                onClick={() => {
                  onChange(entries.filter((_, place) => place !== at));
                  add.current?.focus();
                }}
              >
                Remove {name} {at + 1}
              </button>
            </div>
          )}
        </fieldset>
      ))}
      <div className="buttons">
        <button
          ref={add}
          type="button"
          data-field={field}
          aria-disabled={entries.length >= limits[1]}
          onClick={() => {
            if (entries.length >= limits[1]) return;
            added.current = true;
            onChange([...entries, make()]);
          }}
        >
          Add {name === "example" ? "an" : "a"} {name}
        </button>
        <span className="faint" dir="auto">
          {entries.length} of at most {limits[1]}
        </span>
      </div>
    </fieldset>
  );
}
