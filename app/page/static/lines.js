// The lines of JSON of an answer, as they come.
export async function* lines(answer) {
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let kept = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const parts = (kept + value).split("\n");
    kept = parts.pop();
    for (const part of parts) if (part) yield JSON.parse(part);
  }
}
