import type { ChainItem, MonCall, MonError, MonMessage, MonTool } from './types';
import { parseTime } from './utils';

export interface Turn {
  id: string;
  sessionId: string;
  user: MonMessage | null;
  replies: MonMessage[];
  calls: MonCall[];
  tools: MonTool[];
  errors: MonError[];
  time: number;
  tokens: number;
  duration: number;
  status: 'success' | 'error' | 'pending';
}

export function parseChain(content: string | null | undefined): ChainItem[] {
  if (!content) return [];
  try {
    const parsed: unknown = JSON.parse(content);
    if (Array.isArray(parsed)) return parsed.filter((item): item is ChainItem => Boolean(item) && typeof item === 'object');
    if (typeof parsed === 'string') return parsed ? [{ type: 'Plain', text: parsed }] : [];
    return [{ type: 'Plain', text: content }];
  } catch {
    return [{ type: 'Plain', text: content }];
  }
}

export function hasContent(content: string | null | undefined): boolean {
  return parseChain(content).some((item) => item.type !== 'Source' && !(item.type === 'Plain' && !item.text));
}

function stamp(value: string): number {
  return parseTime(value)?.getTime() ?? 0;
}

/**
 * Conversation turns: a user's message opens one, everything that follows in the session belongs to it. Calls name
 * their message; those that don't are placed by time.
 */
export function groupTurns(messages: MonMessage[], calls: MonCall[], tools: MonTool[], errors: MonError[]): Turn[] {
  const turns: Turn[] = [];
  const bySession = new Map<string, Turn[]>();
  const byMessage = new Map<string, Turn>();
  const referenced = new Set([...calls, ...tools].map((call) => call.message_id).filter(Boolean));

  const sorted = messages.filter((m) => hasContent(m.message_content)).sort((a, b) => stamp(a.timestamp) - stamp(b.timestamp));
  for (const message of sorted) {
    const list = bySession.get(message.session_id) ?? [];
    const isUser = message.role === 'user' || (!message.role && referenced.has(message.id));
    let turn = list[list.length - 1];
    if (!turn || isUser) {
      turn = {
        id: message.id, sessionId: message.session_id, user: null, replies: [], calls: [], tools: [], errors: [],
        time: stamp(message.timestamp), tokens: 0, duration: 0, status: 'success',
      };
      if (isUser || !message.role) turn.user = message;
      else turn.replies.push(message);
      list.push(turn);
      turns.push(turn);
      bySession.set(message.session_id, list);
    } else {
      turn.replies.push(message);
    }
    byMessage.set(message.id, turn);
  }

  const place = (item: { message_id: string | null; session_id: string | null; timestamp: string }): Turn | undefined => {
    const direct = item.message_id ? byMessage.get(item.message_id) : undefined;
    if (direct) return direct;
    const time = stamp(item.timestamp);
    return bySession.get(item.session_id ?? '')?.findLast((turn) => turn.time <= time);
  };
  for (const call of calls) place(call)?.calls.push(call);
  for (const tool of tools) place(tool)?.tools.push(tool);
  for (const error of errors) place(error)?.errors.push(error);

  for (const turn of turns) {
    turn.tokens = turn.calls.reduce((sum, call) => sum + (call.total_tokens || 0), 0);
    turn.duration = [...turn.calls, ...turn.tools].reduce((sum, call) => sum + (call.duration || 0), 0);
    const statuses = [turn.user, ...turn.replies, ...turn.calls, ...turn.tools].map((x) => x?.status);
    if (turn.errors.length > 0 || statuses.includes('error')) turn.status = 'error';
    else if (statuses.includes('pending')) turn.status = 'pending';
  }
  return turns.sort((a, b) => b.time - a.time);
}

export interface Bucket {
  time: number;
  messages: number;
  calls: number;
}

/** Counts per slot of the range, empty slots included. */
export function bucketize(messages: { timestamp: string }[], calls: { timestamp: string }[], from: number, to: number): Bucket[] {
  const span = to - from;
  const minute = 60_000;
  const hour = 60 * minute;
  const size =
    span <= hour ? 5 * minute : span <= 6 * hour ? 15 * minute : span <= 24 * hour ? hour : span <= 7 * 24 * hour ? 4 * hour : 24 * hour;
  const start = Math.floor(from / size) * size;
  const buckets: Bucket[] = [];
  for (let time = start; time <= to; time += size) buckets.push({ time, messages: 0, calls: 0 });
  const add = (timestamp: string, key: 'messages' | 'calls') => {
    const bucket = buckets[Math.floor((stamp(timestamp) - start) / size)];
    if (bucket) bucket[key]++;
  };
  messages.forEach((m) => add(m.timestamp, 'messages'));
  calls.forEach((c) => add(c.timestamp, 'calls'));
  return buckets;
}
