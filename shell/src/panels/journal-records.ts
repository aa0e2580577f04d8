/** The records of the journal, or of one unit, by their number: read in pages when they are looked at. */
import { useRef, useState } from "react";
import { useStream } from "../live/stream";
import { useLive } from "../live/use-live";
import { type JournalRecord, journalGet, journalHead } from "../sdk";

const PAGE = 200;

export interface Records {
  /** How many there are; undefined until that is known. */
  count: number | undefined;
  error: unknown;
  reload: () => void;
  /** The record at a place from 0 on, if it was read; else it is read. */
  at: (place: number) => JournalRecord | undefined;
}

export function useRecords(unit: string): Records {
  const [, setVersion] = useState(0);
  const pages = useRef({ unit, read: new Map<number, JournalRecord[]>(), asked: new Set<number>() });
  const known = useRef(0);
  if (pages.current.unit !== unit) {
    pages.current = { unit, read: new Map(), asked: new Set() };
    known.current = 0;
  }
  const first = unit === "" ? 1 : 0;
  const head = useLive(
    unit,
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
      const place = unit === "" ? record.position - 1 : record.seq;
      const page = pages.current.read.get(Math.floor(place / PAGE));
      if (page !== undefined && page.length === place % PAGE) page.push(record);
      else pages.current.asked.delete(Math.floor(place / PAGE));
      known.current = Math.max(known.current, place + 1);
      setVersion((old) => old + 1);
    },
  });

  const fetchPage = async (page: number) => {
    const now = pages.current;
    if (now.asked.has(page)) return;
    now.asked.add(page);
    try {
      const found = await journalGet({ from: page * PAGE + first, limit: PAGE, unit: unit === "" ? undefined : unit });
      now.read.set(page, found.records);
      setVersion((old) => old + 1);
    } catch {
      setTimeout(() => now.asked.delete(page), 1000);
    }
  };
  const at = (place: number) => {
    const page = Math.floor(place / PAGE);
    const record = pages.current.read.get(page)?.[place % PAGE];
    if (record === undefined) void fetchPage(page);
    return record;
  };
  const count = head.data === undefined ? undefined : Math.max(head.data, known.current);
  return { count, error: head.error, reload: head.reload, at };
}
