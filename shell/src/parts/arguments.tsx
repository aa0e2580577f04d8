/** The arguments of a call: by name and type, verbatim, and as raw JSON. */
import { type ReactNode, useEffect, useRef } from "react";
import { parseObject, typeOf } from "./exact-json";
import { Verbatim } from "./verbatim";

interface ArgumentsProps {
  json: string;
  label?: string;
  /** Called once the end of the arguments was in view. */
  onWholeSeen?: () => void;
}

interface ScrollBoxProps {
  label: string;
  /** What is shown; for another one the end has to be seen again. */
  shows: string;
  /** Called once the end of the box was in view. */
  onWholeSeen?: () => void;
  children: ReactNode;
}

/** A box that scrolls, and tells when its end was in view. */
export function ScrollBox({ label, shows, onWholeSeen, children }: ScrollBoxProps) {
  const box = useRef<HTMLDivElement>(null);
  const end = useRef<HTMLDivElement>(null);
  const told = useRef(onWholeSeen);
  told.current = onWholeSeen;

  useEffect(() => {
    if (end.current === null || box.current === null) return;
    box.current.scrollTo(0, 0);
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
  }, [shows]);

  return (
    <div className="arguments-box" ref={box} tabIndex={0} role="group" aria-label={label}>
      {children}
      <div ref={end} className="end" />
    </div>
  );
}

export function Arguments({ json, label = "Arguments", onWholeSeen }: ArgumentsProps) {
  const values = parseObject(json);
  return (
    <div className="arguments">
      <ScrollBox label={label} shows={json} onWholeSeen={onWholeSeen}>
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
      </ScrollBox>
      <details>
        <summary>Raw JSON</summary>
        <pre dir="ltr">
          <Verbatim text={json} />
        </pre>
      </details>
    </div>
  );
}
