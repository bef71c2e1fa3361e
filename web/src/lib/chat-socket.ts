import { wsUrl } from './api';
import { KEYS, local } from './storage';
import type { ChainItem, ChatMessage, ToolActivity } from './types';

export type SocketState = 'connecting' | 'open' | 'waiting' | 'closed';

export interface ChatHandlers {
  onState(state: SocketState, attempt: number): void;
  onMessage(message: ChatMessage): void;
  onTool(call: ToolActivity): void;
  onError(text: string): void;
  onBroadcast(text: string): void;
  /** Connected again after a loss: what was said meanwhile has to be read anew. */
  onReconnected(): void;
}

const MAX_ATTEMPTS = 5;
const PING_MS = 30_000;

/** One debug chat connection with its own reconnection; `close` ends it for good. */
export class ChatSocket {
  private socket: WebSocket | null = null;
  private ping: ReturnType<typeof setInterval> | undefined;
  private retry: ReturnType<typeof setTimeout> | undefined;
  private attempt = 0;
  private ended = false;
  private everOpen = false;
  private fatal = false;
  connectionId: string | null = null;

  constructor(
    private readonly pipeline: string,
    private readonly kind: 'person' | 'group',
    private readonly handlers: ChatHandlers,
  ) {
    this.connect();
  }

  private connect() {
    if (this.ended) return;
    this.handlers.onState('connecting', this.attempt);
    const socket = new WebSocket(wsUrl(`/pipelines/${encodeURIComponent(this.pipeline)}/ws/connect?session_type=${this.kind}`));
    this.socket = socket;
    socket.onopen = () =>
      socket.send(
        JSON.stringify({
          type: 'authenticate',
          token: local.get(KEYS.token) ?? '',
          workspace_uuid: local.get(KEYS.workspace) ?? '',
        }),
      );
    socket.onmessage = (event) => this.receive(String(event.data));
    socket.onclose = () => this.lost(socket);
  }

  private receive(text: string) {
    let frame: { type?: string; connection_id?: string; session_type?: string; data?: unknown; message?: string };
    try {
      frame = JSON.parse(text);
    } catch {
      return;
    }
    switch (frame.type) {
      case 'connected':
        this.attempt = 0;
        this.connectionId = frame.connection_id ?? null;
        this.handlers.onState('open', 0);
        if (this.everOpen) this.handlers.onReconnected();
        this.everOpen = true;
        this.ping = setInterval(() => this.raw({ type: 'ping' }), PING_MS);
        break;
      case 'response':
      case 'user_message':
        if (frame.data && this.mine(frame.session_type)) this.handlers.onMessage(frame.data as ChatMessage);
        break;
      case 'tool_call':
        if (frame.data && this.mine(frame.session_type)) this.handlers.onTool(frame.data as ToolActivity);
        break;
      case 'broadcast':
        this.handlers.onBroadcast(String(frame.message ?? ''));
        break;
      case 'error':
        // Trying again with the same token cannot help.
        if (frame.message === 'Unauthorized' || frame.message === 'Pipeline not found') this.fatal = true;
        this.handlers.onError(String(frame.message ?? ''));
        break;
    }
  }

  private mine(kind: string | undefined): boolean {
    return !kind || kind === this.kind;
  }

  private lost(socket: WebSocket) {
    if (this.socket !== socket) return;
    clearInterval(this.ping);
    this.socket = null;
    if (this.ended) return;
    if (this.fatal || this.attempt >= MAX_ATTEMPTS) {
      this.handlers.onState('closed', this.attempt);
      return;
    }
    this.attempt++;
    this.handlers.onState('waiting', this.attempt);
    this.retry = setTimeout(() => this.connect(), 3000 * this.attempt);
  }

  private raw(frame: object): boolean {
    if (this.socket?.readyState !== WebSocket.OPEN) return false;
    this.socket.send(JSON.stringify(frame));
    return true;
  }

  send(message: ChainItem[], stream: boolean): boolean {
    return this.raw({ type: 'message', message, stream });
  }

  reconnect() {
    clearTimeout(this.retry);
    this.attempt = 0;
    this.fatal = false;
    this.connect();
  }

  close() {
    this.ended = true;
    clearTimeout(this.retry);
    clearInterval(this.ping);
    this.raw({ type: 'disconnect' });
    this.socket?.close();
    this.socket = null;
  }
}

/** The server keeps no pictures of a debug chat; the ones that were just sent are still at hand here. */
export function withPictures(message: ChatMessage, pictures: string[]): ChatMessage {
  const left = pictures.slice();
  return {
    ...message,
    message_chain: (message.message_chain ?? []).map((item) => {
      if (item.type !== 'Image' || item.base64 || item.url) return item;
      const url = left.shift();
      return url ? { ...item, url } : item;
    }),
  };
}

/** A repeated id is the same message, grown: it takes the place of the older state. */
export function mergeMessage(list: ChatMessage[], message: ChatMessage): ChatMessage[] {
  const at = list.findIndex((item) => item.id === message.id && item.role === message.role);
  if (at < 0) return [...list, message];
  const next = list.slice();
  next[at] = message;
  return next;
}
