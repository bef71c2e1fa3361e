import { useState } from 'react';
import { useTranslation } from 'react-i18next';
import { useQueryClient } from '@tanstack/react-query';
import { Boxes } from 'lucide-react';
import { useModels, useProviders, useRequesters } from '@/lib/queries';
import { api } from '@/lib/api';
import { useCan } from '@/lib/session';
import type { Model } from '@/lib/types';
import { Button } from '@/ui/button';
import { Notice } from '@/ui/feedback';
import { ModelDialog } from './settings/model-dialog';
import { kindsOf } from './settings/model-kinds';
import { ProviderDialog } from './settings/provider-dialog';

/** A first bot needs a model: offers to add a provider and its model right where the lack of one is noticed. */
export function WizardModel({ onMade }: { onMade: (uuid: string) => void }) {
  const { t } = useTranslation();
  const client = useQueryClient();
  const models = useModels('llm');
  const providers = useProviders();
  const requesters = useRequesters();
  const maySecret = useCan('provider_secret.manage');
  const [step, setStep] = useState<'provider' | 'model' | null>(null);
  const [providerId, setProviderId] = useState<string | null>(null);
  const provider = providers.data?.find((p) => p.uuid === providerId) ?? providers.data?.[0];

  if (!models.data || (models.data.length > 0 && step === null)) return null;
  const done = async () => {
    setStep(null);
    const { models: fresh } = await api.get<{ models: Model[] }>('/provider/models/llm');
    void client.invalidateQueries({ queryKey: ['models'] });
    const added = fresh.find((m) => m.provider_uuid === provider?.uuid) ?? fresh[0];
    if (added) onMade(added.uuid);
  };
  return (
    <>
      {models.data.length === 0 && (
        <Notice
          tone="warn"
          action={
            maySecret && (
              <Button size="sm" onClick={() => setStep(provider ? 'model' : 'provider')}>
                <Boxes className="size-4" aria-hidden />
                {t(provider ? 'models.addModel' : 'models.addProvider')}
              </Button>
            )
          }
        >
          {t(maySecret ? 'wizard.noModel' : 'wizard.noModelAsk')}
        </Notice>
      )}
      {step === 'provider' && (
        <ProviderDialog
          provider={null}
          onClose={(saved) => {
            void client.invalidateQueries({ queryKey: ['providers'] }).then(() => {
              setProviderId(saved ?? null);
              setStep(saved ? 'model' : null);
            });
          }}
        />
      )}
      {step === 'model' && provider && (
        <ModelDialog
          provider={provider}
          kinds={kindsOf(requesters.data?.find((r) => r.name === provider.requester)).filter((kind) => kind === 'llm')}
          initialKind="llm"
          model={null}
          onClose={() => void done()}
        />
      )}
    </>
  );
}
