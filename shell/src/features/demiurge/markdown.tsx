/** An answer as Markdown. HTML in it is shown as text, and a link leaves the page only when it is followed. */
import { MarkdownTextPrimitive } from "@assistant-ui/react-markdown";
import type { ComponentProps } from "react";
import remarkGfm from "remark-gfm";

type Components = NonNullable<ComponentProps<typeof MarkdownTextPrimitive>["components"]>;

/** `components` draw further parts of the text in another way. */
export default function Markdown({ components }: { components?: Components }) {
  return (
    <MarkdownTextPrimitive
      smooth={false}
      remarkPlugins={[remarkGfm]}
      components={{
        a: ({ node: _node, ...rest }) => <a {...rest} target="_blank" rel="noreferrer noopener" />,
        // A picture would be a request to another site: its address is shown instead.
        img: ({ src, alt }) => <span className="faint">[picture: {alt} {String(src ?? "")}]</span>,
        ...components,
      }}
    />
  );
}
