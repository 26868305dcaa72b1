/** A cluster's names, for tests: one question of type A, answered with the addresses that somebody knows. */

const HEAD_BYTES = 12;
const [A, IN] = [1, 1];
const NO_SUCH_NAME = 3;

export async function answerName(question: Buffer, addressesOf: (name: string) => Promise<string[]>): Promise<Buffer> {
  const labels: string[] = [];
  let at = HEAD_BYTES;
  while (question[at] !== 0) {
    const length = question[at]!;
    labels.push(question.toString("latin1", at + 1, at + 1 + length));
    at += length + 1;
  }
  const end = at + 5;
  const isAddress = question.readUInt16BE(at + 1) === A;
  const found = await addressesOf(labels.join(".").toLowerCase());
  const addresses = isAddress ? found : [];
  const head = Buffer.alloc(HEAD_BYTES);
  question.copy(head, 0, 0, 2);
  head.writeUInt16BE(0x8580 | (found.length === 0 ? NO_SUCH_NAME : 0), 2);
  head.writeUInt16BE(1, 4);
  head.writeUInt16BE(addresses.length, 6);
  const answers = addresses.map((address) => {
    const record = Buffer.alloc(16);
    record.writeUInt16BE(0xc000 | HEAD_BYTES, 0);
    record.writeUInt16BE(A, 2);
    record.writeUInt16BE(IN, 4);
    record.writeUInt32BE(1, 6);
    record.writeUInt16BE(4, 10);
    for (const [n, part] of address.split(".").entries()) record[12 + n] = Number(part);
    return record;
  });
  return Buffer.concat([head, question.subarray(HEAD_BYTES, end), ...answers]);
}
