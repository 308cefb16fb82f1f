/** Cuts text into sentences worth quoting: markdown is taken off, tables and code are taken line by line. */
const SENTENCE_END = /[.!?]{1,8}["”’')\]]{0,4}\s|[。！？]{1,8}["”’」』）]{0,4}/gu;

/** More of a document is not looked at: a tool result may be of any size, an answer quotes three sentences. */
const MOST_CHARACTERS = 400_000;
const MOST_SENTENCES = 4_000;
const SHORTEST = 8;
const LONGEST_QUOTE = 320;

export function sentencesOf(text: string): readonly string[] {
  const sentences: string[] = [];
  for (const block of blocksOf(text.slice(0, MOST_CHARACTERS))) {
    sentences.push(...splitSentences(block).filter((sentence) => sentence.length >= SHORTEST));
    if (sentences.length >= MOST_SENTENCES) {
      return sentences.slice(0, MOST_SENTENCES);
    }
  }
  return sentences;
}

function splitSentences(block: string): readonly string[] {
  const sentences: string[] = [];
  let from = 0;
  for (const match of block.matchAll(SENTENCE_END)) {
    const to = match.index + match[0].length;
    sentences.push(block.slice(from, to).trim());
    from = to;
  }
  sentences.push(block.slice(from).trim());
  return sentences;
}

/** Paragraphs with their lines joined; headings, list items and table rows each for themselves. */
function blocksOf(text: string): readonly string[] {
  const blocks: string[] = [];
  let paragraph: string[] = [];
  const finish = () => {
    if (paragraph.length > 0) {
      blocks.push(paragraph.join(" "));
      paragraph = [];
    }
  };
  for (const raw of text.split(/\r\n|\n|\r|\u2028|\u2029/)) {
    const line = plain(raw);
    if (line === "" || /^\s*(?:```|~~~|#{1,6}\s|[-*+]\s|\d+[.)]\s|\||>)/.test(raw)) {
      finish();
    }
    if (line !== "") {
      paragraph.push(line);
    }
    if (/^\s*(?:#{1,6}\s|\|)/.test(raw)) {
      finish();
    }
  }
  finish();
  return blocks;
}

/** A line without its markdown and without characters that do not belong in an answer. */
function plain(line: string): string {
  if (/^\s*(?:```|~~~|[-=*_|:\s]+$)/.test(line)) {
    return "";
  }
  return line
    .replace(/[[\p{Cc}\p{Cf}]--[\u200c\u200d]]/gv, " ")
    .replace(/\s+/g, " ")
    .replace(/^ ?(?:#{1,6} |[-*+] |\d+[.)] |> ?)/, "")
    .replace(/!?\[([^[\]]{0,200})\]\([^()]{0,400}\)/g, "$1")
    .replace(/\*\*|__|`/g, "")
    .replace(/\*([^\s*][^*]{0,200})\*/g, "$1")
    .replace(/ ?\| ?/g, ", ")
    .replace(/^[\s,]+|[\s,]+$/g, "");
}

/** Short enough to quote, cut between two characters as a reader sees them. */
export function quotable(sentence: string): string {
  const text = sentence.toWellFormed();
  if (text.length <= LONGEST_QUOTE) {
    return text;
  }
  const cut = new Intl.Segmenter(undefined, { granularity: "grapheme" }).segment(text).containing(LONGEST_QUOTE);
  return `${text.slice(0, cut?.index ?? LONGEST_QUOTE).trimEnd()}…`;
}
