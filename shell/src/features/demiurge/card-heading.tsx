/** The heading of a card that waits for a person: which chat, and what it wants. */
import type { ReactNode } from "react";
import { Link } from "../../router";
import type { Approval } from "../../sdk";

interface CardHeadingProps {
  id: string;
  approval: Approval;
  /** The inbox says which chat a card is of; in the chat itself this is known. */
  showChat: boolean;
  /** The rest of the sentence that the chat's name begins. */
  children: ReactNode;
}

export function CardHeading({ id, approval, showChat, children }: CardHeadingProps) {
  const chat = approval.title || approval.chat_id || approval.unit;
  return (
    <h2 id={id}>
      {showChat && approval.chat_id !== null ? (
        <Link href={`/chats/${encodeURIComponent(approval.chat_id)}`}>
          <bdi>{chat}</bdi>
        </Link>
      ) : (
        (approval.chat_id !== null ? "This chat" : <bdi>{approval.card.asker}</bdi>)
      )}{" "}
      {children}
    </h2>
  );
}
