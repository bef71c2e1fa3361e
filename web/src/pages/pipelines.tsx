import { useTranslation } from 'react-i18next';
import { useNavigate, useSearchParams } from 'react-router';
import { Plus, Workflow } from 'lucide-react';
import { usePage } from '@/components/crumbs';
import { PipelineCreate } from '@/components/pipeline/pipeline-create';
import { PipelineDetail } from '@/components/pipeline/pipeline-detail';
import { usePipelines } from '@/lib/queries';
import { useQuotaReason } from '@/lib/quota';
import { useCan } from '@/lib/session';
import { formatAgo } from '@/lib/utils';
import { Badge, EmptyState, ErrorState, Spinner } from '@/ui/feedback';
import { GatedButton } from '@/ui/overlay';

export function Component() {
  const [params] = useSearchParams();
  const id = params.get('id');
  if (id === 'new') return <PipelineCreate />;
  return id ? <PipelineDetail key={id} uuid={id} /> : <PipelineList />;
}

function PipelineList() {
  const { t, i18n } = useTranslation();
  const navigate = useNavigate();
  const pipelines = usePipelines();
  const mayManage = useCan('resource.manage');
  const reason = useQuotaReason('pipelines');
  usePage(t('pipelines.title'));
  const create = mayManage && (
    <GatedButton reason={reason} label={t('pipelines.create')} variant="primary" onClick={() => void navigate('/home/pipelines?id=new')}>
      <Plus className="size-4" aria-hidden />
      {t('pipelines.create')}
    </GatedButton>
  );
  if (pipelines.isPending) return <Spinner />;
  if (pipelines.isError) return <ErrorState error={pipelines.error} onRetry={() => void pipelines.refetch()} />;
  if (pipelines.data.length === 0) {
    return (
      <EmptyState icon={<Workflow aria-hidden />} title={t('pipelines.none')} action={create}>
        {t('pipelines.noneHint')}
      </EmptyState>
    );
  }
  return (
    <>
      <div className="mb-5 flex flex-wrap items-start justify-between gap-3">
        <div>
          <h1 className="text-xl font-semibold tracking-tight">{t('pipelines.title')}</h1>
          <p className="text-sm text-muted">{t('pipelines.select')}</p>
        </div>
        {create}
      </div>
      <ul className="grid gap-3 sm:grid-cols-2 xl:grid-cols-3">
        {pipelines.data.map((pipeline) => (
          <li key={pipeline.uuid}>
            <button
              type="button"
              onClick={() => void navigate(`/home/pipelines?id=${pipeline.uuid}`)}
              className="flex h-full w-full items-start gap-3 rounded-xl border bg-surface p-4 text-left transition-colors hover:border-line-strong hover:bg-sunken"
            >
              <span className="text-2xl leading-none" aria-hidden>{pipeline.emoji || '⚙️'}</span>
              <span className="min-w-0 flex-1">
                <span className="flex items-center gap-2">
                  <span className="truncate font-medium">{pipeline.name}</span>
                  {pipeline.is_default && <Badge tone="accent">{t('pipelines.default')}</Badge>}
                </span>
                <span className="mt-0.5 line-clamp-2 block text-[13px] text-muted">{pipeline.description || t('pipelines.noDescription')}</span>
                <span className="mt-1 block text-xs text-muted">{t('pipelines.updated', { time: formatAgo(pipeline.updated_at, i18n.language) })}</span>
              </span>
            </button>
          </li>
        ))}
      </ul>
    </>
  );
}
