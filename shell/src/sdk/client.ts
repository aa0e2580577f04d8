/** Requests to the server: JSON in and out, the CSRF header on writes, and errors as `{code, message}`. */

/** An error that the server, or the connection to it, answered with. `status` is 0 when there was no answer. */
export class ApiError extends Error {
  constructor(
    readonly status: number,
    readonly code: string,
    message: string,
    /** Of a conflict: who was first, when and with what. */
    readonly details: Record<string, unknown> = {},
  ) {
    super(message);
  }
}

let csrf = "";

/** Sets the value of the CSRF header, which `GET /api/session` tells. */
export function setCsrf(value: string): void {
  csrf = value;
}

type Query = Record<string, string | number | boolean | null | undefined>;

export function apiPath(path: string, query: Query = {}): string {
  const given = Object.entries(query).filter(([, value]) => value !== undefined && value !== null);
  const search = new URLSearchParams(given.map(([name, value]) => [name, String(value)] as [string, string]));
  return given.length === 0 ? path : `${path}?${search}`;
}

async function send(method: string, path: string, body?: BodyInit, headers: Record<string, string> = {}) {
  let response: Response;
  try {
    response = await fetch(path, { method, body, headers: { ...headers, "x-demiurge-csrf": csrf } });
  } catch {
    throw new ApiError(0, "offline", "The server does not answer. Check that `demiurge serve` runs, then try again.");
  }
  if (!response.ok) {
    const problem = await response.json().catch(() => ({}));
    throw new ApiError(
      response.status,
      String(problem.code ?? "http"),
      String(problem.message ?? `The server answered with status ${response.status}.`),
      problem.details ?? {},
    );
  }
  return response;
}

export async function get<T>(path: string, query?: Query): Promise<T> {
  return (await send("GET", apiPath(path, query))).json();
}

export async function getText(path: string, query?: Query): Promise<string> {
  return (await send("GET", apiPath(path, query))).text();
}

export interface Head {
  text: string;
  /** The number of bytes that `text` is made of. */
  shown: number;
  /** The size of the whole, in bytes. */
  size: number;
  /** The media type. */
  type: string;
}

/** Returns the first bytes of a file as text. */
export async function getHead(path: string, bytes: number): Promise<Head> {
  const response = await send("GET", path, undefined, { range: `bytes=0-${bytes - 1}` });
  const size = response.headers.get("content-range")?.split("/")[1] ?? response.headers.get("content-length");
  const data = await response.arrayBuffer();
  return { text: new TextDecoder().decode(data), shown: data.byteLength, size: Number(size ?? 0), type: response.headers.get("content-type") ?? "" };
}

export async function post<T>(path: string, body: unknown, headers: Record<string, string> = {}): Promise<T> {
  const made = { "content-type": "application/json", ...headers };
  const response = await send("POST", path, JSON.stringify(body), made);
  return response.status === 204 ? (undefined as T) : response.json();
}

export async function put<T>(path: string, body: unknown): Promise<T> {
  return (await send("PUT", path, JSON.stringify(body), { "content-type": "application/json" })).json();
}

export async function patch<T>(path: string, body: unknown): Promise<T> {
  return (await send("PATCH", path, JSON.stringify(body), { "content-type": "application/json" })).json();
}

/** Returns the answer to a DELETE; undefined if it has no content. */
export async function remove<T = void>(path: string): Promise<T> {
  const answer = await send("DELETE", path);
  return answer.status === 204 ? (undefined as T) : answer.json();
}

export async function postBytes<T>(path: string, bytes: Blob): Promise<T> {
  return (await send("POST", path, bytes)).json();
}

/** Returns the sentence to show for an error. */
export function sentence(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
