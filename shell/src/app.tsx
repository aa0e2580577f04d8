/** The frame around the panels: login, navigation, and the banner that says that the server is away. */
import { Fragment, Suspense, useEffect, useRef, useState } from "react";
import { ApprovalsProvider, useApprovals } from "./features/demiurge/approvals";
import { LoginPage } from "./login";
import { startStream, stopStream, useStreamStatus } from "./live/stream";
import { PANELS } from "./panels";
import { useWaitingProposals } from "./panels/prompt-tools/waiting";
import { Link, navigate, usePath } from "./router";
import { ApiError, logout, type Session, sentence, sessionGet, setCsrf } from "./sdk";
import { SessionContext } from "./session";
import { ErrorBoundary, ErrorNote, Loading } from "./parts/notes";
import { usePanelTitle } from "./parts/title";

export function App() {
  const [session, setSession] = useState<Session | null>();
  const [error, setError] = useState<unknown>();
  const known = useRef<Session>(undefined);

  const enter = async () => {
    setError(undefined);
    try {
      const found = await sessionGet();
      setCsrf(found.csrf);
      setSession(found);
      known.current = found;
      startStream(found);
    } catch (problem) {
      if (problem instanceof ApiError && problem.status === 401) setSession(null);
      else if (known.current !== undefined) startStream(known.current); // the banner says that the server is away
      else setError(problem);
    }
  };
  useEffect(() => {
    void enter();
    const away = new AbortController();
    const { signal } = away;
    window.addEventListener("pagehide", stopStream, { signal });
    window.addEventListener("pageshow", ({ persisted }) => persisted && void enter(), { signal });
    return () => {
      away.abort();
      stopStream();
    };
  }, []);

  if (error !== undefined) {
    return (
      <main className="alone">
        <ErrorNote title="The pages cannot begin." message={sentence(error)} onRetry={enter} />
      </main>
    );
  }
  if (session === undefined) return <Loading label="Loading" />;
  if (session === null) return <LoginPage onLogin={enter} />;
  return (
    <SessionContext value={session}>
      <ApprovalsProvider>
        <Shell session={session} />
      </ApprovalsProvider>
    </SessionContext>
  );
}

function Shell({ session }: { session: Session }) {
  const path = usePath();
  const panel = PANELS.find((each) => path === each.path || path.startsWith(`${each.path}/`));
  const waiting = { approvals: useApprovals().live.data?.approvals.length ?? 0, proposals: useWaitingProposals() };
  usePanelTitle(panel?.label ?? "");
  const badges = Object.values(waiting).filter((count) => count > 0).length;
  useEffect(() => {
    if (path === "/") navigate("/chats", { replace: true });
    document.querySelector("nav a[aria-current]")?.scrollIntoView({ inline: "center", block: "nearest" });
  }, [path, badges]);

  const leave = async () => {
    stopStream();
    await logout().catch(() => undefined);
    window.location.assign("/");
  };

  return (
    <div className="shell">
      <header className="bar">
        <span className="brand">Demiurge</span>
        <nav aria-label="Panels">
          {PANELS.map((each) => (
            <Fragment key={each.path}>
              {each.section !== undefined && <span className="section">{each.section}</span>}
              <Link href={each.path} aria-current={each === panel ? "page" : undefined}>
                {each.label}
                {each.badge !== undefined && waiting[each.badge] > 0 && (
                  <span className="count">
                    {waiting[each.badge]}
                    <span className="unseen"> waiting</span>
                  </span>
                )}
              </Link>
            </Fragment>
          ))}
        </nav>
        <span className="who" title={`Roles: ${session.roles.join(", ")}`}>
          <bdi>{session.actor}</bdi>
        </span>
        <button type="button" className="quiet" onClick={leave}>
          Log out
        </button>
      </header>
      <Banner />
      <div className="panel">
        <ErrorBoundary key={panel?.path ?? path}>
          <Suspense fallback={<Loading label="Loading the panel" />}>
            {panel !== undefined ? <panel.component /> : path !== "/" && <NoPage path={path} />}
          </Suspense>
        </ErrorBoundary>
      </div>
    </div>
  );
}

function NoPage({ path }: { path: string }) {
  return (
    <main className="alone">
      <h1>There is no page {path}</h1>
      <p>
        <Link href="/chats">Open the chats</Link>
      </p>
    </main>
  );
}

/** Says that the connection is cut. What is shown stays, and is read again when the server is back. */
function Banner() {
  const status = useStreamStatus();
  return (
    <div role="status" className={status === "offline" ? "banner" : "unseen"}>
      {status === "offline" && "The connection to the server is cut. What you see may be old; it is tried again."}
    </div>
  );
}
