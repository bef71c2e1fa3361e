import { useCallback, useEffect, useRef, useState } from 'react';
import { useTranslation } from 'react-i18next';
import { Link } from 'react-router';
import { RefreshCw, ScrollText } from 'lucide-react';
import { api } from '@/lib/api';
import type { BotLog } from '@/lib/types';
import { formatTime } from '@/lib/utils';
import { Button } from '@/ui/button';
import { Badge, CopyButton, EmptyState, ErrorState, Skeleton, type Tone } from '@/ui/feedback';
import { Switch } from '@/ui/form';
import { AuthImage } from '../auth-image';

const LEVELS = ['debug', 'info', 'warning', 'error'] as const;
const TONE: Record<string, Tone> = { debug: 'neutral', info: 'accent', warning: 'warn', error: 'bad' };
const PAGE = 10;
const REFRESH_MS = 3000;
const LONG = 240;

interface LogPage {
  logs: BotLog[];
  total_count: number;
}

function merge(old: BotLog[], next: BotLog[]): BotLog[] {
  const byId = new Map(old.map((entry) => [entry.seq_id, entry]));
  for (const entry of next) byId.set(entry.seq_id, entry);
  return [...byId.values()].sort((a, b) => b.seq_id - a.seq_id);
}

/** Newest first. New entries come by themselves as long as the reader is at the top. */
export function BotLogs({ uuid, compact }: { uuid: string; compact?: boolean }) {
  const { t, i18n } = useTranslation();
  const [logs, setLogs] = useState<BotLog[] | null>(null);
  const [failure, setFailure] = useState<unknown>(null);
  const [levels, setLevels] = useState<Set<string>>(new Set(['info', 'warning', 'error']));
  const [auto, setAuto] = useState(true);
  const [ended, setEnded] = useState(false);
  const [loading, setLoading] = useState(false);
  const box = useRef<HTMLDivElement>(null);

  const read = useCallback(
    async (from: number, count: number) => {
      const page = await api.post<LogPage>(`/platform/bots/${uuid}/logs`, { from_index: from, max_count: count });
      setLogs((old) => merge(old ?? [], page.logs ?? []));
      setFailure(null);
      return page.logs?.length ?? 0;
    },
    [uuid],
  );

  useEffect(() => {
    setLogs(null);
    setEnded(false);
    read(-1, PAGE).catch(setFailure);
  }, [read]);

  useEffect(() => {
    if (!auto) return;
    const timer = setInterval(() => {
      if (document.visibilityState === 'visible') read(-1, 50).catch(setFailure);
    }, REFRESH_MS);
    return () => clearInterval(timer);
  }, [auto, read]);

  const older = async () => {
    const last = logs?.[logs.length - 1];
    if (!last || loading || ended) return;
    if (last.seq_id <= 0) {
      setEnded(true);
      return;
    }
    setLoading(true);
    try {
      const before = logs?.length ?? 0;
      const got = await read(last.seq_id - 1, PAGE);
      if (got === 0) setEnded(true);
      else setLogs((now) => {
        if ((now?.length ?? 0) === before) setEnded(true);
        return now;
      });
    } catch (error) {
      setFailure(error);
    } finally {
      setLoading(false);
    }
  };

  const shown = logs?.filter((entry) => levels.has(entry.level)) ?? [];
  return (
    <div className="flex flex-col gap-3">
      <div className="flex flex-wrap items-center gap-x-4 gap-y-2">
        <div role="group" aria-label={t('logs.levels')} className="flex gap-1">
          {LEVELS.map((level) => (
            <button
              key={level}
              type="button"
              aria-pressed={levels.has(level)}
              onClick={() => {
                const next = new Set(levels);
                if (!next.delete(level)) next.add(level);
                setLevels(next);
              }}
              className="rounded-md border px-2 py-0.5 text-xs aria-pressed:border-accent aria-pressed:bg-accent-soft aria-pressed:text-accent-text"
            >
              {t(`logs.level.${level}`)}
            </button>
          ))}
        </div>
        <label className="ml-auto flex items-center gap-2 text-[13px]">
          <Switch checked={auto} onCheckedChange={setAuto} />
          {t('logs.auto')}
        </label>
        <Button size="sm" onClick={() => void read(-1, 50).catch(setFailure)}>
          <RefreshCw className="size-4" aria-hidden />
          {t('common.refresh')}
        </Button>
        {!compact && <Link className="text-[13px] text-accent-text hover:underline" to={`/home/monitoring?botId=${uuid}`}>{t('logs.monitoring')}</Link>}
      </div>
      {failure !== null && <ErrorState error={failure} onRetry={() => void read(-1, PAGE).catch(setFailure)} className="py-4" />}
      {logs === null && failure === null && <Skeleton className="h-40" />}
      {logs !== null && shown.length === 0 && (
        <EmptyState icon={<ScrollText aria-hidden />} title={t('logs.none')}>{t('logs.noneHint')}</EmptyState>
      )}
      {shown.length > 0 && (
        <div
          ref={box}
          tabIndex={0}
          role="log"
          aria-label={t('bots.tab.logs')}
          onScroll={(event) => {
            const el = event.currentTarget;
            if (el.scrollTop > 24 && auto) setAuto(false);
            if (el.scrollHeight - el.scrollTop - el.clientHeight < 40) void older();
          }}
          className={compact ? 'max-h-80 overflow-y-auto rounded-xl border bg-surface' : 'max-h-[65vh] overflow-y-auto rounded-xl border bg-surface'}
        >
          <ul className="divide-y">
            {shown.map((entry) => (
              <LogEntry key={entry.seq_id} entry={entry} lang={i18n.language} />
            ))}
          </ul>
          {!ended && logs !== null && logs.length >= PAGE && (
            <div className="p-2 text-center">
              <Button size="sm" variant="ghost" busy={loading} onClick={() => void older()}>{t('logs.older')}</Button>
            </div>
          )}
        </div>
      )}
    </div>
  );
}

function LogEntry({ entry, lang }: { entry: BotLog; lang: string }) {
  const { t } = useTranslation();
  const [open, setOpen] = useState(false);
  const long = entry.text.length > LONG;
  return (
    <li className="px-4 py-2.5">
      <div className="flex flex-wrap items-center gap-2 text-xs text-muted">
        <Badge tone={TONE[entry.level] ?? 'neutral'}>{t(`logs.level.${entry.level}`)}</Badge>
        <time>{formatTime(entry.timestamp, lang)}</time>
        {entry.message_session_id && (
          <span className="flex min-w-0 items-center gap-0.5">
            <code className="truncate font-mono">{entry.message_session_id}</code>
            <CopyButton text={entry.message_session_id} label={t('logs.copySession')} />
          </span>
        )}
      </div>
      <p className="mt-1 font-mono text-[13px] break-words whitespace-pre-wrap">
        {long && !open ? `${entry.text.slice(0, LONG)}…` : entry.text}
      </p>
      {long && (
        <button type="button" className="mt-1 text-xs text-accent-text hover:underline" aria-expanded={open} onClick={() => setOpen(!open)}>
          {t(open ? 'common.showLess' : 'common.showMore')}
        </button>
      )}
      {entry.images?.length > 0 && (
        <div className="mt-2 flex flex-wrap gap-2">
          {entry.images.map((key) => (
            <AuthImage key={key} path={`/files/image/${key}`} alt={t('chat.image')} className="max-h-32 rounded-md border" />
          ))}
        </div>
      )}
    </li>
  );
}
