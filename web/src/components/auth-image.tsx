import { useEffect, useState } from 'react';
import { useTranslation } from 'react-i18next';
import { ImageOff } from 'lucide-react';
import { fetchBlob } from '@/lib/api';
import { Skeleton } from '@/ui/feedback';

/** An image that only an authenticated caller may read: fetched with headers, shown from memory, freed afterwards. */
export function AuthImage({ path, alt, className }: { path: string; alt: string; className?: string }) {
  const { t } = useTranslation();
  const [url, setUrl] = useState<string | null>(null);
  const [failed, setFailed] = useState(false);
  useEffect(() => {
    const abort = new AbortController();
    let made: string | null = null;
    setFailed(false);
    fetchBlob(path, undefined, abort.signal).then(
      ({ blob }) => {
        if (abort.signal.aborted) return;
        made = URL.createObjectURL(blob);
        setUrl(made);
      },
      () => !abort.signal.aborted && setFailed(true),
    );
    return () => {
      abort.abort();
      if (made) URL.revokeObjectURL(made);
      setUrl(null);
    };
  }, [path]);
  if (failed) {
    return (
      <span className="inline-flex items-center gap-1.5 text-xs text-muted">
        <ImageOff className="size-4" aria-hidden />
        {t('chat.imageGone')}
      </span>
    );
  }
  return url ? <img src={url} alt={alt} className={className} /> : <Skeleton className="h-20 w-28" />;
}
