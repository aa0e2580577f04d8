/** Why something happened: the messages of a chat, or one record, with their consequences. */
import { useLive } from "../live/use-live";
import { navigate, useSearch } from "../router";
import { chatsGet, type TraceQuery, traceGet } from "../sdk";
import { PanelState } from "./panel-state";
import { Waterfall } from "./waterfall";
import "./panels.css";

function queryOf(search: URLSearchParams): TraceQuery | null {
  const unit = search.get("unit");
  const hash = search.get("hash");
  const chat = search.get("chat");
  if (unit !== null && search.get("seq") !== null) return { unit, seq: Number(search.get("seq")) };
  if (hash !== null) return { event_hash: hash };
  return chat !== null ? { chat, count: 10 } : null;
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
      {query === null ? <p className="empty">Choose a chat, or open the trace of a record in the journal.</p> : <Trees query={query} />}
    </main>
  );
}

function Trees({ query }: { query: TraceQuery }) {
  const live = useLive(JSON.stringify(query), () => traceGet(query), () => true);
  return (
    <PanelState live={live} loading="Loading the trace" empty="There is no event." isEmpty={(data) => data.trees.length === 0}>
      {(data) => data.trees.map((tree) => <Waterfall key={`${tree.unit} ${tree.seq}`} tree={tree} nowNs={data.now_ns} />)}
    </PanelState>
  );
}
