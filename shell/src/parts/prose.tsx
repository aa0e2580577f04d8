/** A sentence of the program, in which names of commands and files stand between backticks. */
export function Prose({ text }: { text: string }) {
  return text.split(/`([^`\n]+)`/).map((part, place) => (place % 2 === 1 ? <code key={place}>{part}</code> : part));
}
