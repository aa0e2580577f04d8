/** The arguments of a call: by name and type, verbatim, and as raw JSON. */
import { useEffect, useRef } from "react";
import { Verbatim } from "./verbatim";

interface ArgumentsProps {
  json: string;
  /** Called once the end of the arguments was in view. */
  onWholeSeen?: () => void;
}

function parsed(json: string): Record<string, unknown> | null {
  try {
    const value: unknown = JSON.parse(json);
    return typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Record<string, unknown>) : null;
  } catch {
    return null;
  }
}

function typeOf(value: unknown): string {
  if (value === null) return "null";
  return Array.isArray(value) ? "list" : typeof value === "object" ? "object" : typeof value;
}

export function Arguments({ json, onWholeSeen }: ArgumentsProps) {
  const box = useRef<HTMLDivElement>(null);
  const end = useRef<HTMLDivElement>(null);
  const told = useRef(onWholeSeen);
  told.current = onWholeSeen;
  const values = parsed(json);

  useEffect(() => {
    if (end.current === null || box.current === null) return;
    let inBox = false;
    let inPage = false;
    const tell = () => inBox && inPage && told.current?.();
    const boxWatch = new IntersectionObserver((seen) => {
      inBox = seen.some((each) => each.isIntersecting);
      tell();
    }, { root: box.current });
    const pageWatch = new IntersectionObserver((seen) => {
      inPage = seen.some((each) => each.isIntersecting);
      tell();
    });
    boxWatch.observe(end.current);
    pageWatch.observe(end.current);
    return () => {
      boxWatch.disconnect();
      pageWatch.disconnect();
    };
  }, [json]);

  return (
    <div className="arguments">
      <div className="arguments-box" ref={box} tabIndex={0} role="group" aria-label="Arguments">
        {values === null ? (
          <pre dir="ltr">
            <Verbatim text={json} />
          </pre>
        ) : Object.keys(values).length === 0 ? (
          <p className="faint">No arguments.</p>
        ) : (
          <dl>
            {Object.entries(values).map(([name, value]) => (
              <div key={name}>
                <dt>
                  <code>
                    <Verbatim text={name} />
                  </code>{" "}
                  <span className="faint">{typeOf(value)}</span>
                </dt>
                <dd>
                  <pre dir="auto">
                    <Verbatim text={typeof value === "string" ? value : JSON.stringify(value, null, 2)} />
                  </pre>
                </dd>
              </div>
            ))}
          </dl>
        )}
        <div ref={end} className="end" />
      </div>
      <details>
        <summary>Raw JSON</summary>
        <pre dir="ltr">
          <Verbatim text={json} />
        </pre>
      </details>
    </div>
  );
}
