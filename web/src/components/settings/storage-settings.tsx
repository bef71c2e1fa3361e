import { useTranslation } from 'react-i18next';
import { useQuery } from '@tanstack/react-query';
import { RefreshCw } from 'lucide-react';
import { api } from '@/lib/api';
import type { StorageAnalysis } from '@/lib/types';
import { formatBytes, formatNumber, formatTime } from '@/lib/utils';
import { Button } from '@/ui/button';
import { ErrorState, Spinner } from '@/ui/feedback';
import { Heading } from './parts';

function Figure({ label, value }: { label: string; value: string }) {
  return (
    <div className="rounded-lg border px-4 py-3">
      <p className="text-[13px] text-muted">{label}</p>
      <p className="mt-0.5 text-lg font-semibold tabular-nums">{value}</p>
    </div>
  );
}

export function StorageSettings() {
  const { t, i18n } = useTranslation();
  const query = useQuery({ queryKey: ['storage-analysis'], queryFn: () => api.get<StorageAnalysis>('/system/storage-analysis') });
  const lang = i18n.language;
  if (query.isPending) return <Spinner label={t('storage.measuring')} />;
  if (query.isError) return <ErrorState error={query.error} onRetry={() => void query.refetch()} />;
  const data = query.data;
  const sections = data.sections ?? [];
  const total = sections.reduce((sum, s) => sum + (s.size_bytes ?? 0), 0);
  const files = sections.reduce((sum, s) => sum + (s.file_count ?? 0), 0);
  const uploads = data.cleanup_candidates?.uploaded_files ?? [];
  const logs = data.cleanup_candidates?.log_files ?? [];
  return (
    <section className="flex flex-col gap-6">
      <Heading
        title={t('settings.storage')}
        description={t('storage.at', { time: formatTime(data.generated_at, lang) })}
        actions={
          <Button size="sm" busy={query.isFetching} onClick={() => void query.refetch()}>
            <RefreshCw className="size-4" aria-hidden />
            {t('common.refresh')}
          </Button>
        }
      />
      <div className="-mt-2 grid grid-cols-2 gap-3 lg:grid-cols-4">
        <Figure label={t('storage.total')} value={formatBytes(total)} />
        <Figure label={t('storage.files')} value={formatNumber(files, lang)} />
        <Figure label={t('storage.keepUploads')} value={t('storage.days', { n: data.cleanup_policy?.uploaded_file_retention_days ?? 0 })} />
        <Figure label={t('storage.keepLogs')} value={t('storage.days', { n: data.cleanup_policy?.log_retention_days ?? 0 })} />
      </div>
      <div>
        <h3 className="mb-2 text-sm font-medium">{t('storage.sections')}</h3>
        <ul className="divide-y rounded-lg border">
          {sections.map((item) => (
            <li key={item.key} className="flex flex-wrap items-center gap-x-4 px-4 py-2.5 text-sm">
              <div className="min-w-0 flex-1">
                <p className="font-medium">{t(`storage.section.${item.key}`, { defaultValue: item.key })}</p>
                {item.path && <p className="truncate font-mono text-xs text-muted">{item.path}</p>}
              </div>
              <span className="text-muted tabular-nums">{t('storage.nFiles', { n: formatNumber(item.file_count, lang) })}</span>
              <span className="w-24 text-right font-medium tabular-nums">{item.exists ? formatBytes(item.size_bytes) : t('storage.absent')}</span>
            </li>
          ))}
        </ul>
      </div>
      <div>
        <h3 className="mb-2 text-sm font-medium">{t('storage.database', { type: data.database?.type ?? '' })}</h3>
        <dl className="grid grid-cols-2 gap-x-6 gap-y-1.5 rounded-lg border px-4 py-3 text-sm sm:grid-cols-3">
          {Object.entries(data.database?.monitoring_counts ?? {}).map(([key, count]) => (
            <div key={key} className="flex justify-between gap-3">
              <dt className="text-muted">{t(`storage.table.${key}`, { defaultValue: key })}</dt>
              <dd className="tabular-nums">{formatNumber(count, lang)}</dd>
            </div>
          ))}
        </dl>
      </div>
      {data.tasks && (
        <p className="text-[13px] text-muted">{t('storage.tasks', { total: data.tasks.total, running: data.tasks.running })}</p>
      )}
      {(uploads.length > 0 || logs.length > 0) && (
        <div>
          <h3 className="mb-2 text-sm font-medium">{t('storage.expired')}</h3>
          <ul className="max-h-56 divide-y overflow-y-auto rounded-lg border text-[13px]">
            {uploads.map((file) => (
              <li key={file.key} className="flex gap-3 px-3 py-1.5">
                <span className="min-w-0 flex-1 truncate font-mono">{file.key}</span>
                <span className="text-muted">{formatBytes(file.size_bytes)}</span>
              </li>
            ))}
            {logs.map((file) => (
              <li key={file.name} className="flex gap-3 px-3 py-1.5">
                <span className="min-w-0 flex-1 truncate font-mono">{file.name}</span>
                <span className="text-muted">{formatBytes(file.size_bytes)}</span>
              </li>
            ))}
          </ul>
        </div>
      )}
    </section>
  );
}
