/** Files that a person attaches to a message: which are taken, and how they are stored. */
import { blobPost, type NewAttachment, sentence } from "../../sdk";

const MAX_BYTES = 10 * 2 ** 20;
export const MAX_FILES = 100;
export const ACCEPT = "image/png,image/jpeg,image/gif,image/webp,audio/wav,audio/mpeg,.wav,.mp3";
const TAKEN = ["image/png", "image/jpeg", "image/gif", "image/webp", "audio/wav", "audio/mpeg"];
const OTHER_NAMES: Record<string, string> = {
  "audio/mp3": "audio/mpeg",
  "audio/vnd.wave": "audio/wav",
  "audio/wave": "audio/wav",
  "audio/x-wav": "audio/wav",
  "image/jpg": "image/jpeg",
};

export interface AttachedFile {
  key: number;
  name: string;
  size: number;
  mime: string;
  /** The address of the bytes; null while they are stored. */
  ref: string | null;
  /** Why the file can't be sent; empty if it can. */
  problem: string;
  /** Shows an image before it is sent. */
  preview: string | null;
}

let keys = 0;

export function attachedFile(file: File): AttachedFile {
  const mime = OTHER_NAMES[file.type] ?? file.type;
  const problem = !TAKEN.includes(mime)
    ? "It is no PNG, JPEG, GIF or WebP image and no WAV or MP3 sound."
    : file.size > MAX_BYTES
      ? `It has ${sizeText(file.size)}; ${sizeText(MAX_BYTES)} is the most.`
      : "";
  const preview = problem === "" && mime.startsWith("image/") ? URL.createObjectURL(file) : null;
  return { key: ++keys, name: file.name, size: file.size, mime, ref: null, problem, preview };
}

/** Stores the bytes of a file. Returns what became of it. */
export async function stored(attached: AttachedFile, file: File): Promise<AttachedFile> {
  try {
    return { ...attached, ref: (await blobPost(file)).hash };
  } catch (error) {
    return { ...attached, problem: sentence(error) };
  }
}

export function asNew(files: AttachedFile[]): NewAttachment[] {
  return files.flatMap(({ mime, ref }) => (ref === null ? [] : [{ mime, bytes_ref: ref }]));
}

export function sizeText(bytes: number): string {
  if (bytes < 1024) return `${bytes} B`;
  return bytes < 2 ** 20 ? `${Math.round(bytes / 1024)} kB` : `${Math.round((bytes / 2 ** 20) * 10) / 10} MB`;
}
