/** A form that asks for the difference of any two versions. */
import { useState } from "react";
import { navigate } from "../router";

interface CompareFormProps {
  /** The versions that are compared now. */
  old: number;
  version: number;
  newest: number;
  /** The labels of the two fields. */
  labels: [from: string, to: string];
  /** The address of a comparison. */
  to: (values: { version: number; old: number }) => string;
}

export function CompareForm({ old, version, newest, labels, to }: CompareFormProps) {
  const [from, setFrom] = useState(old);
  const [until, setUntil] = useState(version);
  const field = (label: string, value: number, change: (to: number) => void) => (
    <label>
      {label} <input type="number" min={1} max={newest} value={value} onChange={(event) => change(Number(event.target.value))} />
    </label>
  );
  return (
    <form
      className="compare"
      onSubmit={(event) => {
        event.preventDefault();
        navigate(to({ version: until, old: from }));
      }}
    >
      {field(labels[0], from, setFrom)} {field(labels[1], until, setUntil)} <button type="submit">Compare</button>
    </form>
  );
}
