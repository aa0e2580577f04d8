/** A filter whose text the server looks for as a whole: it is asked once the field is left or Enter is pressed. */
import { useState } from "react";

interface TextFilterProps {
  label: string;
  text: string;
  onChange: (text: string) => void;
}

export function TextFilter({ label, text, onChange }: TextFilterProps) {
  const [written, setWritten] = useState(text);
  const tell = () => written.trim() !== text && onChange(written.trim());
  return (
    <form
      onSubmit={(event) => {
        event.preventDefault();
        tell();
      }}
    >
      <label>
        {label} <input type="search" dir="auto" maxLength={60} value={written} onChange={(event) => setWritten(event.target.value)} onBlur={tell} />
      </label>
    </form>
  );
}
