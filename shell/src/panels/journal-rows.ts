/** The rows of the journal: all of them by their place, read in pages when they are looked at, or those of a search. */
import { useEffect, useRef, useState } from "react";
import { useStream } from "../live/stream";
import { useLive } from "../live/use-live";
import { type JournalRow, journalHead, journalRows, journalSearch, type RowQuery } from "../sdk";

const PAGE = 200;
/** A page is not read again sooner than this, however fast records come; after an error, the longer time. */
const PAUSE_MS = 250;
const PAUSE_AFTER_ERROR_MS = 2000;
const OPEN = new Set(["running", "awaiting_approval"]);

export interface Rows {
  /** How many there are; undefined until that is known. */
  count: number | undefined;
  error: unknown;
  readAt: number | undefined;
  reload: () => void;
  /** The row at a place from 0 on, if it was read; else it is read. */
  at: (place: number) => JournalRow | undefined;
}

interface Pages {
  unit: string;
  read: Map<number, JournalRow[]>;
  /** The number of rows that were known when a page was asked for. */
  asked: Map<number, number>;
  /** The pages that are being read, or were a moment ago. */
  busy: Set<number>;
  /** The pages of calls that have not ended, by the place of the call. */
  open: Map<string, number>;
}

export function useRows(unit: string): Rows {
  const [, setVersion] = useState(0);
  const [pageError, setPageError] = useState<unknown>();
  const pages = useRef<Pages>(undefined);
  const known = useRef(0);
  if (pages.current?.unit !== unit) {
    pages.current = { unit, read: new Map(), asked: new Map(), busy: new Set(), open: new Map() };
    known.current = 0;
  }
  const now = pages.current;
  const first = unit === "" ? 1 : 0;
  const head = useLive(
    `rows ${unit}`,
    async () => {
      const found = await journalHead(unit);
      const count = unit === "" ? found.length : (found.units.find((each) => each.unit === unit)?.records ?? 0);
      known.current = Math.max(known.current, count);
      return count;
    },
    () => false,
  );
  useStream({
    onRecord: (record) => {
      if (unit !== "" && record.unit !== unit) return;
      known.current = Math.max(known.current, (unit === "" ? record.position - 1 : record.seq) + 1);
      const ended = now.open.get(`${record.unit} ${record.cause}`);
      if (ended !== undefined) now.asked.delete(ended);
      setVersion((old) => old + 1);
    },
  });

  const fetchPage = async (page: number) => {
    now.busy.add(page);
    now.asked.set(page, known.current);
    let pause = PAUSE_MS;
    try {
      const found = await journalRows(page * PAGE + first, PAGE, unit === "" ? undefined : unit);
      now.read.set(page, found.rows);
      for (const row of found.rows) {
        const name = `${row.unit} ${row.seq}`;
        if (OPEN.has(row.state ?? "")) now.open.set(name, page);
        else now.open.delete(name);
      }
      setPageError(undefined);
    } catch (error) {
      now.asked.delete(page);
      setPageError(error);
      pause = PAUSE_AFTER_ERROR_MS;
    }
    setVersion((old) => old + 1);
    setTimeout(() => {
      now.busy.delete(page);
      setVersion((old) => old + 1);
    }, pause);
  };
  const at = (place: number) => {
    const page = Math.floor(place / PAGE);
    const rows = now.read.get(page);
    const asked = now.asked.get(page);
    const mayAsk = asked === undefined || (rows !== undefined && asked <= place && rows.length + page * PAGE <= place);
    if (mayAsk && !now.busy.has(page)) void fetchPage(page);
    return rows?.[place % PAGE];
  };
  const count = head.data === undefined ? undefined : Math.max(head.data, known.current);
  return { count, error: head.error ?? pageError, readAt: head.readAt, reload: head.reload, at };
}

export interface Search {
  rows: JournalRow[] | undefined;
  lookedAt: number;
  /** Whether there are older records that were not looked at. */
  hasMore: boolean;
  busy: boolean;
  error: unknown;
  readAt: number | undefined;
  /** Records that came since the search; they are in no row. */
  fresh: number;
  more: () => void;
  again: () => void;
}

interface Found {
  rows: JournalRow[];
  before: number | null;
  lookedAt: number;
  readAt: number;
}

/** Searches, newest first, a page at a time. `name` says what is searched for: another search begins anew. */
export function useSearchRows(name: string, query: RowQuery): Search {
  const [found, setFound] = useState<Found>();
  const [error, setError] = useState<unknown>();
  const [busy, setBusy] = useState(true);
  const [fresh, setFresh] = useState(0);
  const current = useRef(name);
  current.current = name;
  useStream({ onRecord: (record) => void ((query.unit === undefined || query.unit === record.unit) && setFresh((old) => old + 1)) });

  const read = async (old: Found | undefined) => {
    setBusy(true);
    setError(undefined);
    if (old === undefined) setFresh(0);
    try {
      const page = await journalSearch({ ...query, before: old?.before ?? undefined, limit: PAGE });
      if (current.current !== name) return;
      setFound({
        rows: [...(old?.rows ?? []), ...page.rows],
        before: page.before,
        lookedAt: (old?.lookedAt ?? 0) + page.looked_at,
        readAt: Date.now(),
      });
    } catch (problem) {
      if (current.current === name) setError(problem);
    }
    if (current.current === name) setBusy(false);
  };
  useEffect(() => {
    setFound(undefined);
    void read(undefined);
  }, [name]);
  return {
    rows: found?.rows,
    lookedAt: found?.lookedAt ?? 0,
    hasMore: found?.before !== null,
    busy,
    error,
    readAt: found?.readAt,
    fresh,
    more: () => void (busy || read(found)),
    again: () => void read(undefined),
  };
}
