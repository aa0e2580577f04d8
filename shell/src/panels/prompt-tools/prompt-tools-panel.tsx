/** Prompt tools: the catalog with a page for each tool, the proposals that change it, and the issues of the world. */
import { lazy, Suspense } from "react";
import { Loading } from "../../parts/notes";
import { Link, usePath } from "../../router";
import "../panels.css";
import { Catalog } from "./catalog";
import "./prompt-tools.css";
import { ToolPage } from "./tool-page";
import { ROOT } from "./tool-words";

const Proposals = lazy(() => import("./proposals"));
const Issues = lazy(() => import("./issues"));

const TABS = [
  { href: ROOT, label: "Catalog" },
  { href: `${ROOT}/proposals`, label: "Proposals" },
  { href: `${ROOT}/issues`, label: "Issues" },
];

export default function PromptToolsPanel() {
  const path = usePath();
  const tab = TABS.slice(1).find(({ href }) => path === href || path.startsWith(`${href}/`)) ?? TABS[0]!;
  return (
    <main className="page wide">
      <div className="title-line">
        <h1>Prompt Tools</h1>
        <nav className="views" aria-label="Prompt Tools">
          {TABS.map((each) => (
            <Link key={each.href} href={each.href} aria-current={each === tab ? "page" : undefined}>
              {each.label}
            </Link>
          ))}
        </nav>
      </div>
      <Suspense key={tab.href} fallback={<Loading label={`Loading the ${tab.label.toLowerCase()}`} />}>
        {tab.label === "Proposals" ? <Proposals /> : tab.label === "Issues" ? <Issues /> : <CatalogTab path={path} />}
      </Suspense>
    </main>
  );
}

function CatalogTab({ path }: { path: string }) {
  const [, where, id] = path.slice(ROOT.length).split("/").map(decodeURIComponent);
  return where === "tools" && id ? <ToolPage key={id} id={id} /> : <Catalog />;
}
