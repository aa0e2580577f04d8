/** The inbox: every call that waits, in all chats, as a list with the card of one of them. A call that was decided while
 * it was shown stays, and says by whom. */
import { useEffect, useRef } from "react";
import { moveFocus } from "../../parts/list-keys";
import { Empty, Loading, Problem } from "../../parts/notes";
import { navigate, useSearch } from "../../router";
import type { Approval } from "../../sdk";
import { ApprovalCard, useCardKeys } from "./approval-card";
import { useApprovals, useNow } from "./approvals";
import { InboxRow } from "./inbox-row";
import { InputCard } from "./input-card";
import { ASK_USER, QuestionCard } from "./question-card";
import "../../panels/panels.css";

const idOf = (approval: Approval) => approval.id ?? approval.unit;

export default function ApprovalsPanel() {
  const { live, mayAsk, decisions } = useApprovals();
  const now = useNow();
  const search = useSearch();
  const shown = useRef(new Map<string, Approval>());
  for (const each of live.data?.approvals ?? []) shown.current.set(idOf(each), each);
  const calls = [...shown.current.values()].sort(endsLater);
  const waiting = new Set(live.data?.approvals.map(idOf));
  const isOpen = (call: Approval) => waiting.has(idOf(call)) && !decisions.has(idOf(call));
  const named = calls.find((each) => idOf(each) === search.get("call"));
  const first = useRef<string>(undefined);
  const chosen = named ?? calls.find((each) => idOf(each) === first.current) ?? calls.find(isOpen) ?? calls[0];
  first.current = chosen === undefined ? undefined : idOf(chosen);
  // The cards that were opened stay, out of sight: a reason that somebody began to write is still there later.
  const opened = useRef(new Set<string>());
  if (chosen !== undefined) opened.current.add(idOf(chosen));

  const choose = (call: Approval, focusesCard = false) => {
    focusAwaited.current = focusesCard;
    navigate(`/approvals?call=${encodeURIComponent(idOf(call))}`, { replace: true });
  };
  const focusAwaited = useRef(false);
  const list = useRef<HTMLUListElement>(null);
  const card = () => document.querySelector<HTMLElement>(".inbox > div > :not([hidden]) > [data-approval]");
  const focusCard = () => {
    const found = card();
    found?.focus({ preventScroll: true });
    found?.scrollIntoView({ block: found.clientHeight > window.innerHeight ? "start" : "nearest" }); // read from its top
  };
  useEffect(() => {
    if (focusAwaited.current) focusCard();
    focusAwaited.current = false;
  }, [chosen && idOf(chosen)]);
  useCardKeys((step) => {
    const place = calls.findIndex((each) => each === chosen);
    if (document.activeElement?.closest("[data-approval]") == null) focusCard();
    else if (calls[place + step] !== undefined) choose(calls[place + step]!, true);
  });

  return (
    <main className="page wide">
      <h1>Approvals</h1>
      {live.error !== undefined && <Problem error={live.error} onRetry={live.reload} readAt={live.readAt} />}
      {live.loading && <Loading label="Loading the calls that wait" />}
      {live.data !== undefined && live.data.approvals.length === 0 && (
        <Empty>{mayAsk ? "Nothing is waiting for you." : "Your role does not see calls that wait. An approver decides them."}</Empty>
      )}
      {chosen !== undefined && (
        <>
          <p className="faint wide-only">
            J and K: next and previous call. O: raw JSON. A and R: to the button; Enter decides. In the list: arrows, Home, End.
          </p>
          <div className="inbox">
            <ul ref={list} aria-label="Calls that wait" onKeyDown={moveFocus}>
              {calls.map((each) => (
                <li key={idOf(each)} data-call={idOf(each)}>
                  <InboxRow
                    approval={each}
                    decision={decisions.get(idOf(each))}
                    waits={waiting.has(idOf(each))}
                    now={now}
                    isChosen={each === chosen}
                    onChoose={() => choose(each, true)}
                  />
                </li>
              ))}
            </ul>
            <div>
              {calls
                .filter((each) => opened.current.has(idOf(each)))
                .map((each) => {
                  const Card = each.tool === ASK_USER ? QuestionCard : each.input != null ? InputCard : ApprovalCard;
                  return (
                    <div key={idOf(each)} hidden={each !== chosen}>
                      <Card approval={each} showChat onDecided={() => focusNextLine(list.current, calls.filter(isOpen), each)} />
                    </div>
                  );
                })}
            </div>
          </div>
        </>
      )}
    </main>
  );
}

function endsLater(one: Approval, other: Approval): number {
  return one.expires_ns === other.expires_ns ? 0 : one.expires_ns < other.expires_ns ? -1 : 1;
}

/** Moves the focus to the line of the next call that still waits. The card stays: a second click on the place of its
 * buttons must not meet those of another call. */
function focusNextLine(list: HTMLElement | null, open: Approval[], decided: Approval): void {
  const others = open.filter((each) => idOf(each) !== idOf(decided));
  const next = others.find((each) => endsLater(each, decided) >= 0) ?? others[0];
  if (next !== undefined) list?.querySelector<HTMLElement>(`[data-call="${CSS.escape(idOf(next))}"] button`)?.focus();
}
