/** The scrolling of a chat: it goes along with what comes until somebody scrolls up, and then stays where it is. */
import { type RefObject, useEffect, useLayoutEffect, useRef, useState } from "react";

interface Follow {
  /** False while somebody reads further up. */
  isAtEnd: boolean;
  /** Shows the end, and what comes after it. */
  goToEnd: () => void;
}

/** Scrolls `box` along with its `content`. When messages come or go before those in view (`first` is the first one),
 * what is in view keeps its place. */
export function useFollow(box: RefObject<HTMLElement | null>, content: RefObject<HTMLElement | null>, first: string | undefined): Follow {
  const [isAtEnd, setAtEnd] = useState(true);
  const follows = useRef(true);
  const seen = useRef<{ id: string; top: number }>(undefined);

  const scrollToEnd = () => box.current?.scrollTo(0, box.current.scrollHeight);
  /** Goes to the end, or only to the top of a card that waits for a person: it is read from there. */
  const follow = () => {
    const view = box.current;
    if (view === null) return;
    const end = view.scrollHeight - view.clientHeight;
    const card = view.querySelector("[data-approval]:has([data-step])"); // nobody has opened a form of it
    const top = card === null ? end : view.scrollTop + card.getBoundingClientRect().top - view.getBoundingClientRect().top;
    view.scrollTo(0, Math.min(end, top));
    if (top >= end) return;
    follows.current = false;
    setAtEnd(false);
  };

  useEffect(() => {
    const [view, inner] = [box.current, content.current];
    if (view === null || inner === null) return;
    let last = view.scrollTop;
    const onScroll = () => {
      const left = view.scrollHeight - view.clientHeight - view.scrollTop;
      if (left < 2) follows.current = true;
      else if (view.scrollTop < last) follows.current = false;
      last = view.scrollTop;
      setAtEnd(follows.current);
      const top = view.getBoundingClientRect().top;
      const found = [...inner.querySelectorAll(".message")].find((each) => each.getBoundingClientRect().bottom > top);
      seen.current = found === undefined ? undefined : { id: found.id, top: found.getBoundingClientRect().top };
    };
    const onWheel = (event: WheelEvent) => {
      if (event.deltaY < 0 && view.scrollTop > 0) follows.current = false; // before something that comes scrolls back
    };
    const sizes = new ResizeObserver(() => follows.current && follow());
    sizes.observe(view);
    sizes.observe(inner);
    view.addEventListener("wheel", onWheel, { passive: true });
    view.addEventListener("scroll", onScroll, { passive: true });
    return () => {
      sizes.disconnect();
      view.removeEventListener("wheel", onWheel);
      view.removeEventListener("scroll", onScroll);
    };
  }, []);

  useLayoutEffect(() => {
    if (follows.current) follow();
    else {
      const found = seen.current && document.getElementById(seen.current.id);
      if (found && box.current) box.current.scrollTop += found.getBoundingClientRect().top - seen.current!.top;
    }
  }, [first]);

  const goToEnd = () => {
    follows.current = true;
    setAtEnd(true);
    scrollToEnd();
  };
  return { isAtEnd, goToEnd };
}
