/** What was read of a chat: its messages and its newest records. Each read fetches only what is new. */
import {
  type ChatMessage,
  type ChatSummary,
  chatGet,
  type JournalRecord,
  journalGet,
  journalHead,
  messagesGet,
  type Turn,
  type TurnFailure,
  turnGet,
} from "../../sdk";

const PAGE = 1000;

export interface ChatRead {
  chat: ChatSummary;
  messages: ChatMessage[];
  /** Why turns failed, by request id. */
  failures: Map<number, TurnFailure>;
  /** From the end of the record; older ones are read when older messages are shown. */
  records: JournalRecord[];
  turn: Turn | undefined;
}

export class ChatRecord {
  private messages: ChatMessage[] = [];
  private failures = new Map<number, TurnFailure>();
  private records: JournalRecord[] = [];
  private first: number | null = null;

  constructor(
    private readonly chatId: string,
    private readonly unit: string,
  ) {}

  /** Lets the next read fetch every message again: one of them was erased. */
  forget(): void {
    this.messages = [];
  }

  async read(): Promise<ChatRead> {
    const known = this.messages;
    const since = known[known.length - 1]?.request_id ?? 0;
    const [chat] = await Promise.all([chatGet(this.chatId), this.readNewRecords()]);
    // After the records: so the messages have every answer whose receipt is among these.
    const [{ messages, failures }, turn] = await Promise.all([
      messagesGet(this.chatId, since),
      chat.last_request_id > 0 ? turnGet(this.chatId, chat.last_request_id) : undefined,
    ]);
    if (this.messages === known) this.messages = [...known.filter((each) => each.request_id < since), ...messages];
    this.failures = new Map([...this.failures, ...failures.map((each) => [each.request_id, each] as const)]);
    return { chat, messages: this.messages, failures: this.failures, records: this.records, turn };
  }

  /** Reads a page of older records. Returns them. */
  async readOlder(): Promise<JournalRecord[]> {
    if (this.first === null || this.first === 0) return [];
    const from = Math.max(0, this.first - PAGE);
    const { records } = await journalGet({ unit: this.unit, from, limit: this.first - from });
    this.records = [...records, ...this.records];
    this.first = from;
    return records;
  }

  private async readNewRecords(): Promise<void> {
    if (this.first === null) {
      const { units } = await journalHead(this.unit, 100);
      const length = units.find((each) => each.unit === this.unit)?.records ?? 0;
      this.first = Math.max(0, length - PAGE);
    }
    let from: number | null = (this.records[this.records.length - 1]?.seq ?? this.first - 1) + 1;
    while (from !== null) {
      const page: { records: JournalRecord[]; next: number | null } = await journalGet({ unit: this.unit, from, limit: PAGE });
      const last = this.records[this.records.length - 1]?.seq ?? -1; // a read that failed may still go on beside this one
      this.records = [...this.records, ...page.records.filter((each) => each.seq > last)];
      from = page.next;
    }
  }
}
