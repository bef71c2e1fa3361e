import { Suspense, lazy, useCallback, useEffect, useRef, useState } from 'react';
import { useTranslation } from 'react-i18next';
import { AtSign, Code, FileText, MessagesSquare, Paperclip, Reply, RotateCcw, SendHorizontal, X } from 'lucide-react';
import { toast } from 'sonner';
import { ChainView } from '@/components/chain-view';
import { ToolEntry } from '@/components/monitor/turn-card';
import { api } from '@/lib/api';
import { ChatSocket, mergeMessage, withPictures, type SocketState } from '@/lib/chat-socket';
import { errorText } from '@/lib/errors';
import { asEntry, mergeActivity } from '@/lib/tools';
import type { ChainItem, ChatMessage, ToolActivity } from '@/lib/types';
import { cn, formatTime } from '@/lib/utils';
import { Button, IconButton } from '@/ui/button';
import { Badge, Card, EmptyState, ErrorState, Notice, Spinner } from '@/ui/feedback';
import { Switch } from '@/ui/form';
import { Confirm } from '@/ui/overlay';

const Markdown = lazy(() => import('@/components/markdown'));

type Kind = 'person' | 'group';
interface Attachment {
  type: 'Image' | 'Voice' | 'File';
  path: string;
  name: string;
  preview?: string;
}
const BOT = 'websocketbot';
const SLOW_MS = 12_000;
const MAX_UPLOAD = 10 * 1024 * 1024;

export function DebugChat({ pipeline, onState }: { pipeline: string; onState: (state: SocketState) => void }) {
  const { t } = useTranslation();
  const [kind, setKind] = useState<Kind>('person');
  return (
    <Card className="flex min-h-[26rem] flex-1 flex-col overflow-hidden lg:max-h-[calc(100dvh-15rem)]">
      <Conversation key={kind} pipeline={pipeline} kind={kind} onState={onState}>
        <div role="radiogroup" aria-label={t('chat.kind')} className="flex rounded-md border p-0.5">
          {(['person', 'group'] as Kind[]).map((item) => (
            <button
              key={item}
              type="button"
              role="radio"
              aria-checked={kind === item}
              onClick={() => setKind(item)}
              className={cn('rounded px-3 py-1 text-[13px]', kind === item ? 'bg-accent-soft font-medium text-accent-text' : 'text-muted')}
            >
              {t(`chat.kinds.${item}`)}
            </button>
          ))}
        </div>
      </Conversation>
    </Card>
  );
}

function Conversation({ pipeline, kind, onState, children }: {
  pipeline: string;
  kind: Kind;
  onState: (state: SocketState) => void;
  children: React.ReactNode;
}) {
  const { t } = useTranslation();
  const [messages, setMessages] = useState<ChatMessage[] | null>(null);
  const [failure, setFailure] = useState<unknown>(null);
  const [state, setState] = useState<SocketState>('connecting');
  const [attempt, setAttempt] = useState(0);
  const [problem, setProblem] = useState<string | null>(null);
  const [stream, setStream] = useState(true);
  const [raw, setRaw] = useState(false);
  const [quote, setQuote] = useState<ChatMessage | null>(null);
  const [waiting, setWaiting] = useState(false);
  // What the agent does in the turn under way; its answer brings the whole list along.
  const [work, setWork] = useState<ToolActivity[]>([]);
  const [resetting, setResetting] = useState(false);
  const socket = useRef<ChatSocket | null>(null);
  const list = useRef<HTMLDivElement>(null);
  const stick = useRef(true);
  // Pictures of messages that were sent and not echoed yet, and all that have to be freed at the end.
  const sent = useRef<string[][]>([]);
  const blobs = useRef<string[]>([]);
  useEffect(() => () => blobs.current.forEach((blob) => URL.revokeObjectURL(blob)), []);
  const report = useRef(onState);
  report.current = onState;

  const history = useCallback(async () => {
    setFailure(null);
    try {
      const data = await api.get<{ messages: ChatMessage[] }>(`/pipelines/${pipeline}/ws/messages/${kind}`);
      setMessages((live) => (live ?? []).reduce(mergeMessage, data.messages ?? []));
    } catch (error) {
      setFailure(error);
    }
  }, [pipeline, kind]);

  useEffect(() => {
    void history();
    const connection = new ChatSocket(pipeline, kind, {
      onState: (next, n) => {
        setState(next);
        setAttempt(n);
        report.current(next);
        if (next === 'open') setProblem(null);
        else setWaiting(false);
      },
      onMessage: (message) => {
        const mine = message.role === 'user' && message.connection_id === connection.connectionId;
        const pictures = mine ? (sent.current.shift() ?? []) : [];
        setMessages((old) => mergeMessage(old ?? [], withPictures(message, pictures)));
        setWaiting(message.role === 'user' || !message.is_final);
        if (message.role === 'user' || message.tool_calls) setWork([]);
        if (message.role === 'user') setProblem(null);
      },
      onTool: (call) => {
        setWork((old) => mergeActivity(old[0]?.turn_id === call.turn_id ? old : [], call));
        setWaiting(true);
      },
      onError: (text) => {
        setWaiting(false);
        setProblem(text);
      },
      onBroadcast: (text) => toast(text),
      onReconnected: () => void history(),
    });
    socket.current = connection;
    return () => connection.close();
  }, [pipeline, kind, history]);

  // Follow the answer as it grows, unless the reader has scrolled up.
  useEffect(() => {
    const el = list.current;
    if (el && stick.current) el.scrollTop = el.scrollHeight;
  }, [messages, waiting, work]);

  const send = (chain: ChainItem[], pictures: string[]): boolean => {
    stick.current = true;
    if (!socket.current?.send(chain, stream)) {
      toast.error(t('chat.notConnected'));
      return false;
    }
    sent.current.push(pictures);
    blobs.current.push(...pictures);
    setWaiting(true);
    setQuote(null);
    return true;
  };

  const last = messages?.[messages.length - 1];
  const growing = last?.role === 'assistant' && !last.is_final;
  const typing = waiting && (!last || last.role === 'user') && work.length === 0;
  const [slow, setSlow] = useState(false);
  useEffect(() => {
    setSlow(false);
    if (!typing) return;
    const timer = setTimeout(() => setSlow(true), SLOW_MS);
    return () => clearTimeout(timer);
  }, [typing]);
  return (
    <>
      <div className="flex flex-wrap items-center gap-x-4 gap-y-2 border-b px-4 py-2">
        {children}
        <span role="status" className="text-[13px] text-muted">
          {state === 'waiting' ? t('chat.retrying', { n: attempt }) : t(`chat.socket.${state}`)}
        </span>
        {state === 'closed' && <Button size="sm" onClick={() => socket.current?.reconnect()}>{t('chat.reconnect')}</Button>}
        <span className="ml-auto flex items-center gap-3">
          <label className="flex items-center gap-2 text-[13px]">
            <Switch checked={stream} onCheckedChange={setStream} />
            {t('chat.stream')}
          </label>
          <IconButton label={t(raw ? 'chat.showFormatted' : 'chat.showRaw')} size="iconSm" aria-pressed={raw} onClick={() => setRaw(!raw)}>
            {raw ? <FileText className="size-4" aria-hidden /> : <Code className="size-4" aria-hidden />}
          </IconButton>
          <IconButton label={t('chat.reset')} size="iconSm" disabled={!messages?.length} onClick={() => setResetting(true)}>
            <RotateCcw className="size-4" aria-hidden />
          </IconButton>
        </span>
      </div>
      <div
        ref={list}
        tabIndex={0}
        role="log"
        aria-label={t('chat.log')}
        aria-busy={waiting}
        onScroll={(event) => {
          const el = event.currentTarget;
          stick.current = el.scrollHeight - el.scrollTop - el.clientHeight < 60;
        }}
        className="flex min-h-0 flex-1 flex-col gap-4 overflow-y-auto px-4 py-4"
      >
        {failure !== null && <ErrorState error={failure} onRetry={() => void history()} className="py-4" />}
        {messages === null && failure === null && <Spinner />}
        {messages?.length === 0 && !waiting && (
          <EmptyState icon={<MessagesSquare aria-hidden />} title={t('chat.empty')}>{t(kind === 'group' ? 'chat.emptyGroup' : 'chat.emptyHint')}</EmptyState>
        )}
        {messages?.map((message) => (
          <Bubble key={`${message.role}-${message.id}`} message={message} work={growing && message === last ? work : []} raw={raw} onQuote={() => setQuote(message)} />
        ))}
        {work.length > 0 && !growing && <Work calls={work} />}
        {typing && (
          <div className="flex items-center gap-1 self-start rounded-xl bg-sunken px-4 py-3" role="status" aria-label={t('chat.thinking')}>
            {[0, 1, 2].map((n) => (
              <span key={n} className="size-1.5 animate-bounce rounded-full bg-muted" style={{ animationDelay: `${n * 120}ms` }} />
            ))}
            {slow && <span className="ml-2 text-[13px] text-muted">{t(kind === 'group' ? 'chat.slowGroup' : 'chat.slow')}</span>}
          </div>
        )}
      </div>
      {problem && (
        <Notice tone="bad" className="mx-4 mb-2" action={<IconButton label={t('common.close')} size="iconSm" onClick={() => setProblem(null)}><X className="size-4" aria-hidden /></IconButton>}>
          {t('chat.serverSaid', { text: problem })} {t(problem === 'Unauthorized' ? 'chat.signInAgain' : 'chat.seeLogs')}
        </Notice>
      )}
      <Composer kind={kind} ready={state === 'open'} quote={quote} onUnquote={() => setQuote(null)} onSend={send} />
      <Confirm
        open={resetting}
        onOpenChange={setResetting}
        danger={false}
        title={t('chat.reset')}
        description={t('chat.resetText')}
        action={t('chat.reset')}
        onConfirm={async () => {
          await api.post(`/pipelines/${pipeline}/ws/reset/${kind}`);
          setMessages([]);
          setWaiting(false);
        }}
      />
    </>
  );
}

/** The calls of a turn in their order, folded. */
function Work({ calls }: { calls: ToolActivity[] }) {
  const { t } = useTranslation();
  return (
    <div role="group" aria-label={t('chat.work')} className="flex w-[34rem] max-w-full flex-col gap-1.5 self-start">
      {calls.map((call, index) => <ToolEntry key={`${index}-${call.id}`} tool={asEntry(call, index)} />)}
    </div>
  );
}

function Bubble({ message, work, raw, onQuote }: { message: ChatMessage; work: ToolActivity[]; raw: boolean; onQuote: () => void }) {
  const { t, i18n } = useTranslation();
  const mine = message.role === 'user';
  const chain = message.message_chain ?? [];
  const texts = chain.filter((item) => item.type === 'Plain').map((item) => String(item.text ?? ''));
  const parts = chain.filter((item) => item.type !== 'Source');
  const first = parts.findIndex((item) => item.type === 'Plain');
  // A mention or a quote stands before the text, pictures and files come after it.
  const lead = first > 0 ? parts.slice(0, first) : [];
  const rest = parts.slice(Math.max(first, 0)).filter((item) => item.type !== 'Plain');
  const body = texts.join('') || (parts.length === 0 ? message.content : '');
  const calls = message.tool_calls ?? work;
  return (
    <div className={cn('group flex max-w-[min(46rem,88%)] flex-col gap-1', mine ? 'items-end self-end' : 'items-start self-start')} data-role={message.role} data-final={message.is_final}>
      {calls.length > 0 && <Work calls={calls} />}
      <div className={cn('max-w-full rounded-xl px-3.5 py-2.5 text-sm', mine ? 'bg-accent-soft' : 'bg-sunken')}>
        {mine || raw ? (
          mine ? <ChainView chain={chain.length > 0 ? chain : [{ type: 'Plain', text: message.content }]} /> : <pre className="font-mono text-[13px] whitespace-pre-wrap">{body}</pre>
        ) : (
          <>
            {lead.length > 0 && <ChainView chain={lead} />}
            {body && (
              <Suspense fallback={<div className="whitespace-pre-wrap">{body}</div>}>
                <Markdown text={body} />
              </Suspense>
            )}
            {rest.length > 0 && <ChainView chain={rest} />}
          </>
        )}
      </div>
      <span className="flex items-center gap-2 text-xs text-muted">
        <time>{formatTime(message.timestamp, i18n.language, false)}</time>
        {!mine && !message.is_final && <Badge tone="accent">{t('chat.streaming')}</Badge>}
        {message.is_final !== false && (
          <button type="button" onClick={onQuote} className="inline-flex items-center gap-1 rounded opacity-0 group-hover:opacity-100 hover:text-text focus-visible:opacity-100">
            <Reply className="size-3.5" aria-hidden />
            {t('chat.quote')}
          </button>
        )}
      </span>
    </div>
  );
}

function Composer({ kind, ready, quote, onUnquote, onSend }: {
  kind: Kind;
  ready: boolean;
  quote: ChatMessage | null;
  onUnquote: () => void;
  onSend: (chain: ChainItem[], pictures: string[]) => boolean;
}) {
  const { t } = useTranslation();
  const [text, setText] = useState('');
  const [at, setAt] = useState(false);
  const [files, setFiles] = useState<Attachment[]>([]);
  const [uploading, setUploading] = useState(0);
  const picker = useRef<HTMLInputElement>(null);
  const area = useRef<HTMLTextAreaElement>(null);
  // "@" at the end of what is typed offers the bot.
  const offer = kind === 'group' && !at && /(^|\s)@$/.test(text);

  useEffect(() => {
    const el = area.current;
    if (!el) return;
    el.style.height = 'auto';
    el.style.height = `${Math.min(el.scrollHeight, 180)}px`;
  }, [text]);

  const mention = () => {
    setAt(true);
    setText(text.replace(/@$/, ''));
    area.current?.focus();
  };

  const upload = async (chosen: Iterable<File>) => {
    for (const file of chosen) {
      if (file.size > MAX_UPLOAD) {
        toast.error(t('chat.tooLarge', { name: file.name }));
        continue;
      }
      setUploading((n) => n + 1);
      try {
        const body = new FormData();
        body.append('file', file, file.name);
        const image = file.type.startsWith('image/');
        const data = await api.post<{ file_key?: string; file_id?: string }>(image ? '/files/images' : '/files/documents', body, { timeout: 120_000 });
        const type = image ? 'Image' : file.type.startsWith('audio/') ? 'Voice' : 'File';
        setFiles((old) => [...old, { type, path: data.file_key ?? data.file_id ?? '', name: file.name, preview: image ? URL.createObjectURL(file) : undefined }]);
      } catch (error) {
        toast.error(`${file.name}: ${errorText(error)}`);
      } finally {
        setUploading((n) => n - 1);
      }
    }
  };

  const drop = (index: number) => {
    const gone = files[index];
    if (gone?.preview) URL.revokeObjectURL(gone.preview);
    setFiles(files.filter((_, i) => i !== index));
  };

  const submit = () => {
    if (uploading > 0 || !ready || (!text.trim() && files.length === 0)) return;
    const chain: ChainItem[] = [];
    if (quote) {
      chain.push({ type: 'Quote', id: quote.id, origin: (quote.message_chain ?? []).filter((item) => item.type !== 'Source') });
    }
    if (at) chain.push({ type: 'At', target: BOT, display: BOT });
    if (text.trim()) chain.push({ type: 'Plain', text: at ? ` ${text}` : text });
    for (const file of files) {
      chain.push(file.type === 'File' ? { type: 'File', path: file.path, name: file.name } : { type: file.type, path: file.path });
    }
    if (!onSend(chain, files.flatMap((file) => file.preview ?? []))) return;
    setText('');
    setAt(false);
    setFiles([]);
    area.current?.focus();
  };

  return (
    <div className="border-t p-3">
      {quote && (
        <div className="mb-2 flex items-center gap-2 rounded-md bg-sunken px-3 py-1.5 text-[13px] text-muted">
          <Reply className="size-4 shrink-0" aria-hidden />
          <span className="min-w-0 flex-1 truncate">{quote.content}</span>
          <IconButton label={t('chat.unquote')} size="iconSm" onClick={onUnquote}><X className="size-4" aria-hidden /></IconButton>
        </div>
      )}
      {(files.length > 0 || uploading > 0) && (
        <ul className="mb-2 flex flex-wrap gap-2">
          {files.map((file, index) => (
            <li key={file.path} className="flex items-center gap-2 rounded-md border px-2 py-1 text-[13px]">
              {file.preview ? <img src={file.preview} alt="" className="size-8 rounded object-cover" /> : <FileText className="size-4 text-muted" aria-hidden />}
              <span className="max-w-40 truncate">{file.name}</span>
              <IconButton label={t('chat.removeFile', { name: file.name })} size="iconSm" onClick={() => drop(index)}><X className="size-4" aria-hidden /></IconButton>
            </li>
          ))}
          {uploading > 0 && <li><Spinner className="p-1" label={t('chat.uploading', { n: uploading })} /></li>}
        </ul>
      )}
      {offer && (
        <Button size="sm" className="mb-2" onClick={mention}>
          <AtSign className="size-4" aria-hidden />
          {BOT}
        </Button>
      )}
      <div className="flex items-end gap-2">
        <IconButton label={t('chat.attach')} onClick={() => picker.current?.click()}>
          <Paperclip className="size-4.5" aria-hidden />
        </IconButton>
        <input
          ref={picker}
          type="file"
          multiple
          hidden
          onChange={(event) => {
            void upload(Array.from(event.target.files ?? []));
            event.target.value = '';
          }}
        />
        <div className="control flex min-h-9 flex-1 items-start gap-1.5 py-1 focus-within:outline-2 focus-within:outline-accent">
          {at && (
            <Badge tone="accent" className="mt-1">
              @{BOT}
              <button type="button" aria-label={t('chat.unmention')} onClick={() => setAt(false)}><X className="size-3" aria-hidden /></button>
            </Badge>
          )}
          <textarea
            ref={area}
            rows={1}
            aria-label={t('chat.input')}
            placeholder={t('chat.placeholder')}
            className="max-h-45 flex-1 resize-none bg-transparent py-0.5 leading-6 focus:outline-none focus-visible:outline-none"
            value={text}
            onChange={(event) => setText(event.target.value)}
            onPaste={(event) => {
              const pasted = Array.from(event.clipboardData.files);
              if (pasted.length > 0) {
                event.preventDefault();
                void upload(pasted);
              }
            }}
            onKeyDown={(event) => {
              if (event.nativeEvent.isComposing) return;
              if (event.key === 'Enter' && !event.shiftKey) {
                event.preventDefault();
                if (offer) mention();
                else submit();
              } else if (event.key === 'Backspace' && text === '' && at) setAt(false);
            }}
          />
        </div>
        <IconButton label={t('chat.send')} variant="primary" disabled={!ready || uploading > 0 || (!text.trim() && files.length === 0)} onClick={submit}>
          <SendHorizontal className="size-4.5" aria-hidden />
        </IconButton>
      </div>
    </div>
  );
}
