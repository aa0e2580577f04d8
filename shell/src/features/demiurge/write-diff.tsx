/** A file that a call writes, as a difference to the version that is there now. */
import { lazy, Suspense, useEffect, useState } from "react";
import { ErrorNote, Loading } from "../../parts/notes";
import { ApiError, sentence, workspaceFile } from "../../sdk";

const DiffRows = lazy(() => import("./diff-rows"));

interface Write {
  workspace: string;
  path: string;
  text: string;
}

function writeOf(json: string): Write | null {
  try {
    const { workspace = "main", path, text } = JSON.parse(json);
    return typeof path === "string" && typeof text === "string" ? { workspace, path, text } : null;
  } catch {
    return null;
  }
}

export function WriteDiff({ argumentsJson }: { argumentsJson: string }) {
  const write = writeOf(argumentsJson);
  const [current, setCurrent] = useState<string>();
  const [problem, setProblem] = useState("");
  const [attempt, setAttempt] = useState(0);

  useEffect(() => {
    if (write === null) return;
    let gone = false;
    setProblem("");
    workspaceFile(write.workspace, write.path).then(
      (text) => gone || setCurrent(text),
      (error) => {
        if (gone) return;
        if (error instanceof ApiError && error.status === 404) setCurrent("");
        else setProblem(sentence(error));
      },
    );
    return () => {
      gone = true;
    };
  }, [argumentsJson, attempt]);

  if (write === null) return null;
  return (
    <figure className="diff">
      <figcaption>
        <code dir="ltr">
          {write.workspace}/{write.path}
        </code>{" "}
        <span className="faint">{current === "" ? "a new file" : "compared to the version that is there now"}</span>
      </figcaption>
      {problem !== "" && <ErrorNote message={problem} onRetry={() => setAttempt(attempt + 1)} />}
      {current !== undefined && (
        <Suspense fallback={<Loading label="Comparing" />}>
          <DiffRows before={current} after={write.text} />
        </Suspense>
      )}
    </figure>
  );
}
