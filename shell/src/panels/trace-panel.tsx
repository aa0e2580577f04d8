/** Why something happened: the messages of a chat, or one record, with their consequences. */
import { useEffect, useRef } from "react";
import { useLive } from "../live/use-live";
import { Link, navigate, useSearch } from "../router";
import { chatsGet, type TraceQuery, traceGet } from "../sdk";
import { PanelState } from "./panel-state";
import { idOf } from "./trace-rows";
import { Waterfall } from "./waterfall";
import "./panels.css";

const COUNT = 10;
const MOST = 200;

function queryOf(search: URLSearchParams): TraceQuery | null {
  const unit = search.get("unit");
  const hash = search.get("hash");
  const chat = search.get("chat");
  if (unit !== null && search.get("seq") !== null) return { unit, seq: Number(search.get("seq")) };
  if (hash !== null) return { event_hash: hash };
  return chat !== null ? { chat, count: Number(search.get("count")) || COUNT } : null;
}

export default function TracePanel() {
  const search = useSearch();
  const query = queryOf(search);
  const chats = useLive("chats", chatsGet, (record) => record.body?.value?.$tag === "ChatCreated");
  return (
    <main className="page wide">
      <h1>Trace</h1>
      <form
        className="filters"
        onSubmit={(event) => {
          event.preventDefault();
          const hash = String(new FormData(event.currentTarget).get("hash") ?? "").trim();
          if (hash !== "") navigate(`/trace?hash=${encodeURIComponent(hash)}`);
        }}
      >
        <label>
          Chat{" "}
          <select value={search.get("chat") ?? ""} onChange={(event) => navigate(`/trace?chat=${encodeURIComponent(event.target.value)}`)}>
            <option value="">choose a chat</option>
            {(chats.data?.chats ?? []).map((each) => (
              <option key={each.chat_id} value={each.chat_id}>
                {each.title || each.chat_id}
              </option>
            ))}
          </select>
        </label>
        <label>
          Hash of an event or a record <input name="hash" defaultValue={search.get("hash") ?? ""} />
        </label>
        <button type="submit">Find</button>
      </form>
      {query === null ? <p className="empty">Choose a chat, or open the trace of a record in the journal.</p> : <Trees query={query} chosen={search.get("open")} />}
    </main>
  );
}

function Trees({ query, chosen }: { query: TraceQuery; chosen: string | null }) {
  const units = useRef(new Set<string>());
  const live = useLive(JSON.stringify(query), () => traceGet(query), (record) => units.current.has(record.unit));
  const trees = live.data?.trees ?? [];
  useEffect(() => {
    units.current = new Set(trees.flatMap((tree) => tree.nodes.map((node) => node.unit)));
    if ("chat" in query) units.current.add(`demiurge/Demiurge@1/${query.chat}`);
  }, [live.data]);
  const choose = (id: string | null) => {
    const search = new URLSearchParams(window.location.search);
    id === null ? search.delete("open") : search.set("open", id);
    navigate(`/trace?${search}`, { replace: true });
  };
  return (
    <PanelState live={live} loading="Loading the trace" empty="There is no event." isEmpty={(data) => data.trees.length === 0}>
      {(data) => (
        <>
          {data.trees.map((tree) => (
            <Waterfall key={idOf(tree)} tree={tree} nowNs={data.now_ns} chosen={chosen} onChoose={choose} />
          ))}
          {"chat" in query && data.trees.length === query.count && data.trees.length < MOST && (
            <p>
              <Link href={`/trace?chat=${encodeURIComponent(query.chat)}&count=${Math.min(MOST, data.trees.length + COUNT)}`}>Show older events</Link>
            </p>
          )}
        </>
      )}
    </PanelState>
  );
}
