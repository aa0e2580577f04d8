/** The rows of the list of chats. A record of a chat makes the page read that chat alone, so its cost does not grow with
 * the number of chats. */
import { useEffect, useRef } from "react";
import { useStream } from "../../live/stream";
import { type Live, useLive } from "../../live/use-live";
import { ApiError, chatGet, type ChatSummary, chatsGet } from "../../sdk";
import { CHAT } from "./chat-data";

interface ChatRows {
  /** The chat in which something happened last comes first. */
  chats: ChatSummary[];
  /** What the titles and ids were searched for. */
  searched: string;
  archived: boolean;
  /** Where the chats that are not shown begin; null if all are shown. */
  next: number | null;
}

/** The number of chats that are read at once. */
const WINDOW = 50;
const MOST = 1000;
/** Of more changed chats than this, the window is read and not each chat. */
const MOST_ROWS = 10;
const TYPING_MS = 150;

/** `archived`: the chats in the archive, in place of those that are not. */
export function useChatList(search: string, archived: boolean): { live: Live<ChatRows>; showMore: () => void } {
  const known = useRef<ChatRows>(undefined);
  const isStale = useRef(true);
  const wantsMore = useRef(false);
  /** The ids of the chats to read again, the one that changed last at the end. */
  const changed = useRef(new Set<string>());

  const load = async (): Promise<ChatRows> => {
    const old = known.current?.searched === search && known.current.archived === archived && !isStale.current ? known.current : undefined;
    const size = known.current?.searched === search && known.current.archived === archived ? known.current.chats.length : 0;
    const ids = [...changed.current].reverse().filter((id) => search === "" || old?.chats.some((chat) => chat.chat_id === id));
    const more = wantsMore.current;
    isStale.current = wantsMore.current = false;
    changed.current.clear();
    try {
      if (old === undefined || ids.length > MOST_ROWS) {
        const limit = Math.min(MOST, Math.max(WINDOW, size + (more ? WINDOW : 0)));
        known.current = { ...(await chatsGet({ search, archived, limit })), searched: search, archived };
      } else {
        const fresh = (await Promise.all(ids.map(chatIfThere))).filter((chat) => chat !== null);
        const there = new Set(fresh.map((chat) => chat.chat_id));
        const gone = new Set(ids.filter((id) => !there.has(id)));
        const window = more && old.next !== null ? await chatsGet({ search, archived, before: old.next, limit: WINDOW }) : old;
        const chats = joined(joined(fresh, old.chats), window.chats).filter((chat) => chat.archived === archived && !gone.has(chat.chat_id));
        known.current = { chats, searched: search, archived, next: window.next };
      }
    } catch (error) {
      isStale.current = true; // the changes that this read was for have to be read again
      throw error;
    }
    return known.current;
  };

  useStream({ onOpen: () => (isStale.current = true) });
  const live = useLive("chats", load, ({ unit }) => {
    if (!unit.startsWith(`${CHAT}/`)) return false;
    const id = unit.slice(CHAT.length + 1);
    changed.current.delete(id);
    changed.current.add(id); // as the last one
    return true;
  });

  const isOther = live.data !== undefined && (live.data.searched !== search || live.data.archived !== archived);
  useEffect(() => {
    if (!isOther) return;
    const timer = setTimeout(live.reload, TYPING_MS);
    return () => clearTimeout(timer);
  }, [isOther, search, archived]);

  const showMore = () => {
    wantsMore.current = true;
    live.reload();
  };
  return { live, showMore };
}

async function chatIfThere(id: string): Promise<ChatSummary | null> {
  try {
    return await chatGet(id);
  } catch (error) {
    if (error instanceof ApiError && error.status === 404) return null;
    throw error;
  }
}

/** Returns the rows of both lists; a chat that both have stands once, as the first list has it. */
function joined(first: ChatSummary[], second: ChatSummary[]): ChatSummary[] {
  const ids = new Set(first.map((chat) => chat.chat_id));
  return [...first, ...second.filter((chat) => !ids.has(chat.chat_id))];
}
