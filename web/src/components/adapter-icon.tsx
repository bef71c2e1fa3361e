import { useState } from 'react';
import { MessageSquare, Box } from 'lucide-react';
import { apiUrl } from '@/lib/api';
import { cn } from '@/lib/utils';

function IconImage({ src, kind, className }: { src: string; kind: 'adapter' | 'requester'; className?: string }) {
  const [broken, setBroken] = useState(false);
  const Fallback = kind === 'adapter' ? MessageSquare : Box;
  if (broken) return <Fallback className={cn('shrink-0 text-muted', className)} aria-hidden />;
  return <img src={src} alt="" className={cn('shrink-0 rounded-sm object-contain', className)} onError={() => setBroken(true)} />;
}

export function AdapterIcon({ name, className }: { name: string; className?: string }) {
  return <IconImage kind="adapter" className={className} src={apiUrl(`/platform/adapters/${encodeURIComponent(name)}/icon`)} />;
}

export function RequesterIcon({ name, className }: { name: string; className?: string }) {
  return <IconImage kind="requester" className={className} src={apiUrl(`/provider/requesters/${encodeURIComponent(name)}/icon`)} />;
}
