/** The approved versions of a prompt tool: their texts, what changed between two, and a proposal of an old one. */
import { useEffect, useRef, useState } from "react";
import { useLive } from "../../live/use-live";
import { moveFocus } from "../../parts/list-keys";
import { Moment } from "../../parts/time";
import { Link, navigate, useSearch } from "../../router";
import { type PromptToolVersion, toolVersion, toolVersionDiff } from "../../sdk/prompt-tools";
import { maySend, useSession } from "../../session";
import { CompareForm } from "../compare-form";
import { PanelState } from "../panel-state";
import { proposalHref } from "./review-words";
import { RollbackForm } from "./rollback-form";
import { ToolDifferences } from "./tool-differences";
import { ToolText } from "./tool-text";
import { LAYERS, toolHref } from "./tool-words";

/** So many versions are shown at first. */
const SOME = 50;

const KINDS = { new: "new", modify: "changed", delete: "deleted" };

/** What of the history is open: `version`, and with `old` what changed since then; with `back` the form of a rollback. */
type To = (values: Record<string, string | number>) => string;

export function ToolHistory({ id, versions }: { id: string; versions: PromptToolVersion[] }) {
  const search = useSearch();
  const [count, setCount] = useState(SOME);
  const layer = search.get("layer") ?? versions[0]?.layer ?? "user";
  const ofLayer = versions.filter((each) => each.layer === layer);
  const newest = ofLayer[0]?.version ?? 0;
  const number = (name: string) => Number(search.get(name) ?? 0) || 0;
  const [version, old, back] = [number("version"), number("old"), number("back")];
  const shown = ofLayer.find((each) => each.version === version);
  const to: To = (values) => `${toolHref(id)}?${new URLSearchParams(Object.entries({ layer, ...values }).map(([key, value]) => [key, String(value)]))}`;
  const layers = [...new Set(versions.map((each) => each.layer))];
  return (
    <section className="card" aria-labelledby="tool-history">
      <div className="title-line">
        <h2 id="tool-history">Approved versions</h2>
        {layers.length > 1 && (
          <nav className="views" aria-label="Layer">
            {layers.map((each) => (
              <Link key={each} href={`${toolHref(id)}?layer=${each}`} aria-current={each === layer ? "page" : undefined}>
                {LAYERS[each]}
              </Link>
            ))}
          </nav>
        )}
      </div>
      {ofLayer.length > 1 && (
        <CompareForm
          key={`${layer} ${old} ${version}`}
          old={old > 0 ? old : newest - 1}
          version={version > 0 ? version : newest}
          newest={newest}
          labels={["From version", "to"]}
          to={to}
        />
      )}
      {shown !== undefined && old > 0 && <Changes id={id} layer={layer} old={old} version={version} to={to} />}
      {shown !== undefined && old === 0 && <VersionText id={id} version={shown} />}
      <ul className="tool-list" aria-label="Versions" onKeyDown={moveFocus}>
        {ofLayer.slice(0, count).map((each) => (
          <Version key={each.version} id={id} each={each} isOpen={each.version === version} isGoingBack={each.version === back} to={to} />
        ))}
      </ul>
      {ofLayer.length > count && (
        <button type="button" onClick={() => setCount(count + SOME)}>
          Older versions ({(ofLayer.length - count).toLocaleString()})
        </button>
      )}
    </section>
  );
}

interface VersionProps {
  id: string;
  each: PromptToolVersion;
  isOpen: boolean;
  isGoingBack: boolean;
  to: To;
}

function Version({ id, each, isOpen, isGoingBack, to }: VersionProps) {
  const mayPropose = maySend(useSession());
  return (
    <li className="version-row">
      <span className="title-line">
        <Link data-item href={to({ version: each.version })} aria-current={isOpen ? "page" : undefined}>
          Version {each.version}
        </Link>
        <span className="tag">{KINDS[each.kind]}</span>
        {each.is_live && <span className="tag live">live</span>}
        {each.version > 1 && <Link href={to({ version: each.version, old: each.version - 1 })}>what changed</Link>}
        {!each.is_live && each.kind !== "delete" && mayPropose && !isGoingBack && (
          <button type="button" className="link" onClick={() => navigate(to({ back: each.version }), { replace: true })}>
            Roll back to this version
          </button>
        )}
      </span>
      <span className="faint wrap">
        approved by <bdi>{each.approved_by}</bdi>, <Moment ns={each.at_ms * 1e6} />,{" "}
        <Link href={proposalHref(each.proposal)}>its proposal</Link>
        {each.revision > 1 && `, revision ${each.revision}`}
      </span>
      <code className="faint wrap">{each.digest}</code>
      {isGoingBack && <RollbackForm id={id} version={each} onBack={() => navigate(toolHref(id), { replace: true })} />}
    </li>
  );
}

/** Returns a ref of a heading, which gets the focus, and so comes into view, when what is open changes. */
function useFocusOn(what: string) {
  const heading = useRef<HTMLHeadingElement>(null);
  useEffect(() => heading.current?.focus(), [what]);
  return heading;
}

function Changes({ id, layer, old, version, to }: { id: string; layer: string; old: number; version: number; to: To }) {
  const heading = useFocusOn(`${old} ${version}`);
  const live = useLive(`${id} ${layer} ${old} ${version} changes`, () => toolVersionDiff(id, old, version, layer), () => false);
  return (
    <section className="column" aria-labelledby="tool-changes">
      <h3 id="tool-changes" tabIndex={-1} ref={heading}>
        Changed from version {old} to {version}
      </h3>
      <p>
        <Link href={to({ version })}>The whole text of version {version}</Link>
      </p>
      <PanelState live={live} loading="Loading the changes" empty="No field differs." isEmpty={(data) => data.fields.length === 0}>
        {(data) => <ToolDifferences fields={data.fields} before={`Version ${old}`} after={`Version ${version}`} />}
      </PanelState>
    </section>
  );
}

function VersionText({ id, version }: { id: string; version: PromptToolVersion }) {
  const heading = useFocusOn(String(version.version));
  const live = useLive(
    `${id} ${version.layer} ${version.version}`,
    () => toolVersion(id, version.version, version.layer),
    () => false,
  );
  return (
    <section className="column" aria-labelledby="tool-version">
      <h3 id="tool-version" tabIndex={-1} ref={heading}>
        Version {version.version}
      </h3>
      <PanelState live={live} loading="Loading the version" empty="This version deleted the tool." isEmpty={(data) => data.tool === null}>
        {(data) => <ToolText record={data.tool} />}
      </PanelState>
    </section>
  );
}
