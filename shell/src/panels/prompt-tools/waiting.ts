/** How many proposals wait for this caller: for their review, their decision, or their revision. */
import { useLive } from "../../live/use-live";
import { proposalsGet, type ProposalState } from "../../sdk/review";
import { isUser, useSession } from "../../session";
import { isChief, isOfProposals, mayRead, waitsFor } from "./review-words";

const MOST = 1000;

/** Returns 0 for a caller who may not read proposals, and as long as nothing was read. */
export function useWaitingProposals(): number {
  const session = useSession();
  const states: ProposalState[] = ["returned"];
  if (isChief(session)) states.push("chief_review");
  if (isUser(session)) states.push("user_decision");
  const load = async () => {
    if (!mayRead(session)) return 0;
    const found = await Promise.all(states.map((state) => proposalsGet({ state, limit: MOST })));
    return found.flatMap((each) => each.proposals).filter((each) => waitsFor(session, each)).length;
  };
  const live = useLive("waiting proposals", load, (record) => mayRead(session) && isOfProposals(record));
  return live.data ?? 0;
}
