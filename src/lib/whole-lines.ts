/** Whole lines of a stream of bytes whose pieces end anywhere, also within a character. */

import { Writable } from "node:stream";
import { StringDecoder } from "node:string_decoder";

/** `pass` gets lines without the end of the last, as many as came at once; a line above `lineMaxChars` in parts. The stream's end ends its last line. */
export function wholeLines(lineMaxChars: number, pass: (text: string) => void): Writable {
  const decoder = new StringDecoder("utf8");
  let begun = "";
  const add = (text: string) => {
    begun += text;
    const end = begun.lastIndexOf("\n");
    if (end >= 0) pass(begun.slice(0, end));
    begun = begun.slice(end + 1);
  };
  return new Writable({
    write(chunk: Buffer, _encoding, done) {
      add(decoder.write(chunk));
      if (begun.length > lineMaxChars) {
        pass(begun);
        begun = "";
      }
      done();
    },
    final(done) {
      add(decoder.end());
      if (begun !== "") pass(begun);
      done();
    },
  });
}
