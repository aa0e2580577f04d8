/** Prompt tools: the catalog with a page for each tool, the proposals that change it, and the issues of the world. */
import { lazy, Suspense } from "react";
import { Loading } from "../../parts/notes";
import { Link, usePath } from "../../router";
import { useSession } from "../../session";
import "../panels.css";
import { Catalog } from "./catalog";
import "./prompt-tools.css";
import { mayRead } from "./review-words";
import { ToolPage } from "./tool-page";
import { ROOT } from "./tool-words";

const ProposePage = lazy(() => import("./propose-page"));
const Proposals = lazy(() => import("./proposals"));
const Issues = lazy(() => import("./issues"));

const TABS = [
  { href: ROOT, label: "Catalog" },
  { href: `${ROOT}/proposals`, label: "Proposals" },
  { href: `${ROOT}/issues`, label: "Issues" },
];

export default function PromptToolsPanel() {
  const path = usePath();
  const seesAll = mayRead(useSession());
  const tab = TABS.slice(1).find(({ href }) => path === href || path.startsWith(`${href}/`)) ?? TABS[0]!;
  return (
    <main className="page wide wrap">
      <div className="title-line">
        <h1>Prompt Tools</h1>
        <nav className="views" aria-label="Prompt Tools">
          {TABS.filter((each) => seesAll || each.href === ROOT).map((each) => (
            <Link key={each.href} href={each.href} aria-current={each === tab ? "page" : undefined}>
              {each.label}
            </Link>
          ))}
        </nav>
      </div>
      <Suspense key={tab.href} fallback={<Loading label={`Loading the ${tab.label.toLowerCase()}`} />}>
        <Page path={path.slice(ROOT.length)} />
      </Suspense>
    </main>
  );
}

/** What is at an address below `/prompt-tools`. */
function Page({ path }: { path: string }) {
  const [, where, ...rest] = path.split("/").map(decodeURIComponent);
  const [first = "", second = ""] = rest;
  if (where === "propose") return <ProposePage key={path} act={first || "new"} id={second} />;
  if (where === "proposals" && second === "revise") return <ProposePage key={path} act="revise" id={first} />;
  if (where === "proposals") return <Proposals />;
  if (where === "issues") return <Issues />;
  return where === "tools" && first !== "" ? <ToolPage key={first} id={first} /> : <Catalog />;
}
