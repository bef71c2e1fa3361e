// A model server of the OpenAI chat completions kind that answers slowly, piece by piece: --port N.
// The model `broken-model` is refused.
import { createServer } from 'node:http';

const at = process.argv.indexOf('--port');
const port = at > 0 ? Number(process.argv[at + 1]) : 0;
const REPLY = 'Hello from the **walk model**. This answer comes in pieces:\n\n- one\n- two\n- three\n\nand ends here.';

const server = createServer(async (request, response) => {
  const chunks = [];
  for await (const chunk of request) chunks.push(chunk);
  if (request.url.endsWith('/models')) {
    response.writeHead(200, { 'Content-Type': 'application/json' });
    response.end(JSON.stringify({ object: 'list', data: [{ id: 'walk-model', object: 'model', owned_by: 'walk' }] }));
    return;
  }
  const body = chunks.length ? JSON.parse(Buffer.concat(chunks).toString()) : {};
  if (body.model === 'broken-model') {
    response.writeHead(401, { 'Content-Type': 'application/json' });
    response.end(JSON.stringify({ error: { message: 'Incorrect API key provided', type: 'invalid_request_error', code: 'invalid_api_key' } }));
    return;
  }
  const usage = { prompt_tokens: 21, completion_tokens: 30, total_tokens: 51 };
  if (!body.stream) {
    response.writeHead(200, { 'Content-Type': 'application/json' });
    response.end(JSON.stringify({ id: 'c', object: 'chat.completion', created: 1, model: body.model, choices: [{ index: 0, message: { role: 'assistant', content: REPLY }, finish_reason: 'stop' }], usage }));
    return;
  }
  response.writeHead(200, { 'Content-Type': 'text/event-stream' });
  const send = (choices, more = {}) => response.write(`data: ${JSON.stringify({ id: 'c', object: 'chat.completion.chunk', created: 1, model: body.model, choices, ...more })}\n\n`);
  for (let n = 0; n < REPLY.length && !response.destroyed; n += 5) {
    send([{ index: 0, delta: { content: REPLY.slice(n, n + 5) }, finish_reason: null }]);
    await new Promise((resolve) => setTimeout(resolve, 60));
  }
  send([{ index: 0, delta: {}, finish_reason: 'stop' }]);
  if (body.stream_options?.include_usage) send([], { usage });
  response.end('data: [DONE]\n\n');
});
server.listen(port, '127.0.0.1', () => console.log(`http://127.0.0.1:${server.address().port}`));
